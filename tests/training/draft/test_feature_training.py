"""A feature draft learns as it is decoded: the unrolled steps are those of the loop, and what it learns is what is accepted."""

import json

import pytest
import torch
from test_draft_training import CODES, READER, VOCABULARY, coins, make_spoken, make_target, trial

from pcg.cli import main
from pcg.decode.draft import RowRequest
from pcg.decode.runners import make_runners
from pcg.errors import InputError
from pcg.models.feature_draft import FeatureDraft, usual_taps
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint
from pcg.sampling import Plain
from pcg.synthesis.voice import load_voice
from pcg.text.prompt import Prompt
from pcg.training.draft import DraftJob, open_target
from pcg.training.feature_draft import (
    FeatureModel,
    TapPlaces,
    Unrolled,
    divergence,
    hold_out,
    low_rank,
    read_target,
    start_from,
    train_feature,
)
from pcg.training.publish import write_feature_draft
from pcg.training.samples import (
    MANIFEST,
    OBJECTIVES,
    Examiner,
    Material,
    Objective,
    Sampling,
    Schedule,
    own_samples,
    tokens_path,
    write_shard,
)  # fmt: skip
from pcg.training.tokens import TokenizedUtterance, collate, make_row

OVERLAP = OBJECTIVES["overlap"]


def random_model(target, rank=0):
    """One whose every part matters, as far from the start as a trained one."""
    model = FeatureModel(target, VOCABULARY, usual_taps(4), rank)
    rng = coins(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=rng))
    return model


def batch_of(spoken, size=2):
    return collate([make_row(spoken[i : i + size], READER, CODES) for i in range(0, len(spoken) - size + 1, size)])


def same_voice(count, seed=0):
    return [u for u in make_spoken(2 * count, seed) if u.voice == "x"]


@pytest.mark.parametrize(
    ("depth", "taps"), [(12, (3, 6, 9, 12)), (16, (4, 8, 12, 16)), (28, (7, 14, 21, 28)), (3, (1, 2, 3)), (1, (1,))]
)
def test_the_layers_after_each_quarter_are_tapped(depth, taps):
    assert usual_taps(depth) == taps


@pytest.mark.parametrize("rank", [0, 5])
def test_unrolled_steps_are_those_of_the_loop(rank):
    """At every position, what the module's step k computes is what the k-th drafted token is drawn from."""
    target = make_target()
    model, checkpoint = random_model(target, rank), Checkpoint.of(target)
    spoken = same_voice(2)
    row = make_row(spoken, READER, CODES)
    # A shorter row beside it, so that there is padding.
    batch = collate([row, make_row([same_voice(2)[1]] * 2, READER, CODES)])
    places = TapPlaces.of(batch)
    taps, _ = read_target(target, batch, model.shape.tapped_layers)
    with torch.no_grad():
        steps = [model.hidden(g) @ model.head.T for g in model.unroll(batch, taps, places, 3)]
    draft = model.decoding(checkpoint)
    count = len(row.labels) - int((row.labels != -100).sum()) + 1
    prompt = Prompt(row.ids[:count], row.positions[:count], float(row.positions[count - 1]) + 1)
    codes = row.labels[row.labels != -100][:-1].tolist()
    # The positions of a row go on as a prompt's do from its first code on only where it holds one reference.
    positions = torch.cat([prompt.positions, prompt.next_position + torch.arange(len(codes))])
    assert torch.equal(positions, row.positions)
    for start in (0, 1, 6, len(codes) - 2):
        runners = make_runners(DecodingLlama(checkpoint, VOCABULARY), draft, [prompt], len(codes) + 4)
        for each in runners:
            each.prefill()
        runners[0].feed([0], [codes[:start]], 1)
        wanted = [steps[k][0, start + k].softmax(-1) for k in range(3)]
        drawn = torch.zeros(1, 3, dtype=torch.float64)
        for k, token in enumerate(codes[start : start + 2]):
            drawn[0, k] = (wanted[k][:token].sum() + wanted[k][token] / 2) / wanted[k].sum()
        found = runners[1].propose([RowRequest(0, codes[:start], Plain(1.0), coins=drawn[0])])[0]
        assert found.drafted.tolist()[:2] == codes[start : start + 2]
        torch.testing.assert_close(found.probs, torch.stack(wanted), atol=2e-5, rtol=1e-3)


def test_the_fast_forward_pass_has_the_taps_of_transformers():
    target, batch = make_target(), batch_of(same_voice(4))
    wanted, last = read_target(target, batch, (1, 3))
    with torch.autocast("cpu", torch.bfloat16):
        taps, again = read_target(target, batch, (1, 3))
    real = TapPlaces.of(batch)
    for mine, theirs in ((taps, wanted), (again.float(), last)):
        mine, theirs = (real.pick(t)[real.real] for t in (mine, theirs))
        assert float((mine - theirs).norm() / theirs.norm()) < 0.03
    other = read_target(target, batch, (2, 3))[0]
    assert float((real.pick(other - wanted)[real.real][:, 0]).norm() / wanted.norm()) > 0.1


@pytest.mark.parametrize(("kl", "tv"), [(1.0, 0.0), (0.0, 1.0), (0.3, 1.0)])
def test_the_divergence_and_its_gradient_are_those_of_autograd(kl, tv, monkeypatch):
    monkeypatch.setattr("pcg.training.feature_draft.CHUNK", 40)  # so that there are several chunks
    rng = coins()
    hidden, head, wanted, wanted_head = (
        torch.randn(size, generator=rng, dtype=torch.float64) for size in ((2, 7, 3), (9, 3), (7, 4), (9, 4))
    )
    weights, temperature = torch.rand(2, 7, generator=rng), 0.7
    hidden, head = hidden.float().requires_grad_(), head.float().requires_grad_()
    loss, overlap = divergence(hidden, head, wanted.float(), wanted_head.float(), weights, kl, tv, temperature)
    found = torch.autograd.grad(loss, (hidden, head))
    p = ((hidden @ head.T) / temperature).softmax(-1)
    q = ((wanted @ wanted_head.T) / temperature).softmax(-1).float()
    both = torch.minimum(p, q).sum(-1)
    again = (weights * (kl * (q * (q / p).log()).sum(-1) + tv * (1 - both))).sum()
    torch.testing.assert_close(loss, again)
    torch.testing.assert_close(overlap, both)
    for mine, theirs in zip(found, torch.autograd.grad(again, (hidden, head)), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def test_a_head_of_full_rank_is_the_targets_and_one_of_low_rank_is_near():
    head, gain = torch.randn(40, 12, generator=coins()), torch.rand(12, generator=coins(1)) + 0.5
    down, up = low_rank(head, gain, 12)
    torch.testing.assert_close(up @ down, head, atol=1e-4, rtol=1e-3)
    errors = [float(((up @ down - head) * gain).norm()) for down, up in (low_rank(head, gain, rank) for rank in (4, 8, 11))]
    assert errors == sorted(errors, reverse=True)
    best = torch.linalg.svdvals(head * gain)[8:].square().sum().sqrt()
    assert errors[1] == pytest.approx(float(best), rel=1e-4)
    for rank in (-1, 13):
        with pytest.raises(InputError, match="rank"):
            low_rank(head, gain, rank)


def test_least_squares_begin_nearer_than_chance():
    target = make_target()
    model, batches = FeatureModel(target, VOCABULARY, usual_taps(4)), [batch_of(same_voice(40, seed)) for seed in range(3)]
    losses = Unrolled(model, target, OVERLAP, 1.0, "fp32")
    before = losses.overlaps(batches)
    assert 0.05 < start_from(model, target, batches) <= 1
    after = losses.overlaps(batches)
    assert after["overlap_1"] > before["overlap_1"] + 0.02
    exact = model.features.weight.detach().clone()
    with torch.autocast("cpu", torch.bfloat16):
        start_from(model, target, batches)
    assert float((model.features.weight.detach() - exact).norm() / exact.norm()) < 0.15


def learned(directory, target, steps=60, rank=0, precision="fp32", every=20, seed=0):
    model, corpus = FeatureModel(target, VOCABULARY, usual_taps(4), rank), make_spoken(60)
    samples = own_samples(directory.parent / "s", DecodingLlama(target, VOCABULARY), corpus, READER, Sampling(80, 1.0))
    material, held_out = hold_out(Material(corpus, samples, READER, VOCABULARY), [], 24, 0)
    schedule = Schedule(steps, 300, lr=1e-2, precision=precision, every=every, rows_between=1)
    return model, train_feature(directory, model, target, material, OVERLAP, schedule, 1.0, seed, "cpu", held_out)


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "precision"), [(0, "fp32"), (5, "bf16")])
def test_training_raises_the_overlap_and_what_the_engine_accepts(tmp_path, rank, precision):
    target = make_target(scale=12.0)  # of which least squares know less
    examiner = Examiner(target, trial(target, make_spoken(40, seed=1)))
    untrained = FeatureModel(target, VOCABULARY, usual_taps(4), rank)
    first = examiner.accepted(untrained.decoding(Checkpoint.of(target)))["sd"].value
    model, found = learned(tmp_path / "t", target, rank=rank, precision=precision)
    rows = [json.loads(line) for line in (tmp_path / "t" / "draft.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [20, 40, 60]
    for step in (1, 2, 3):
        assert rows[-1][f"held_out_overlap_{step}"] > rows[0][f"held_out_overlap_{step}"]
        assert found[f"overlap_{step}"] == pytest.approx(rows[-1][f"held_out_overlap_{step}"], abs=1e-4)
    assert found["overlap_1"] > found["overlap_3"] - 0.02
    assert examiner.accepted(model.decoding(Checkpoint.of(target)))["sd"].value > first + 0.05


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    target = make_target()
    whole, _ = learned(tmp_path / "whole", target, steps=6, every=3)
    rows = []

    def killed(batches, *rest):
        rows.append(batches)
        if len(rows) == 5:
            raise KeyboardInterrupt
        return learn(batches, *rest)

    from pcg.training.loop import learn

    monkeypatch.setattr("pcg.training.feature_draft.learn", killed)
    with pytest.raises(KeyboardInterrupt):
        learned(tmp_path / "parts", target, steps=6, every=3)
    again, _ = learned(tmp_path / "parts", target, steps=6, every=3)
    assert len(rows) == 5 + 3
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    other, _ = learned(tmp_path / "other", target, steps=6, every=3, seed=1)
    assert not torch.equal(whole.features.weight, other.features.weight)


@pytest.mark.parametrize("objective", [OBJECTIVES["ce"], OBJECTIVES["both"], Objective(0, 0, 1)])
def test_an_objective_with_cross_entropy_is_refused(tmp_path, objective):
    target = make_target()
    model, material = FeatureModel(target, VOCABULARY, (4,)), Material(make_spoken(9), make_spoken(9), READER, VOCABULARY)
    with pytest.raises(InputError, match="objective"):
        train_feature(tmp_path, model, target, material, objective, Schedule(1), 1.0, 0, "cpu")


def test_a_written_draft_is_the_one_that_learned(tmp_path):
    target = make_target()
    model = random_model(target, rank=5)
    write_feature_draft(tmp_path, model, {"plan": "feature"})
    from pcg.models.feature_draft import read_feature_draft

    again = read_feature_draft(tmp_path, Checkpoint.of(target), VOCABULARY)
    torch.testing.assert_close(again.head, model.head_up.detach(), atol=2e-3, rtol=2e-3)
    assert again.tapped == usual_taps(4)


@pytest.fixture
def tiny_tokens(tmp_path):
    folder, rng = tmp_path / "tokens", coins()
    texts = ("hello", "yes", "the quick brown fox", "is this one sentence?")
    spoken = [TokenizedUtterance("a", texts[i % 4], [], torch.randint(0, 64, (15 + i % 20,), generator=rng)) for i in range(40)]
    write_shard(tokens_path(folder, 0), spoken)
    (folder / MANIFEST).write_text(json.dumps({"codes": 64, "recordings": 40}))
    return folder


def test_the_command_trains_one_for_a_voice_that_speaks_with_it(tmp_path, tiny_tokens, tiny_voice_folder, capsys):
    out = tmp_path / "draft"
    asked = ["train", "draft", "--target", str(tiny_voice_folder), "--tokens", str(tiny_tokens), "--out", str(out)]
    asked += ["--plan", "feature", "--rank", "8", "--taps", "1,3", "--samples", "30", "--budget", "300", "--steps", "2"]
    assert main(asked) == 0
    assert "overlap_1" in capsys.readouterr().out
    facts = json.loads((out / "draft.json").read_text())
    assert facts["plan"] == "feature"
    assert set(facts["acceptance"]) == {"sd", "pcg", "overlap_1", "overlap_2", "overlap_3"}
    voice = load_voice(str(tiny_voice_folder), draft=str(out))
    assert isinstance(voice.draft, FeatureDraft)
    assert (voice.draft.tapped, voice.draft.shape.rank) == ((1, 3), 8)
    assert main(asked) == 0  # it is done
    assert main([*asked[:-2], "--steps", "3", "--rank", "4"]) == 2  # another one, in the same folder
    assert "out is" in capsys.readouterr().err


@pytest.mark.slow
def test_one_for_a_llasa_learns_from_what_it_is_given_and_drafts(tmp_path, llasa_folder):
    """Its vocabulary holds text as well, and fewer heads have keys than queries. It never ends, so it has no own samples."""
    (tmp_path / MANIFEST).write_text(json.dumps({"codes": 65_536, "recordings": 0}))
    target, vocabulary, reader = open_target(str(llasa_folder), tmp_path)
    spoken = [
        TokenizedUtterance("a", "hello", [], torch.randint(0, 4096, (12 + i % 5,), generator=coins(i)) * 16) for i in range(8)
    ]
    model, material = FeatureModel(target, vocabulary, usual_taps(3), rank=16), Material(spoken, [], reader, vocabulary)
    schedule, given = Schedule(2, 200), Objective(0, 0.3, 0, tv=1.0)
    train_feature(tmp_path, model, target, material, given, schedule, 0.8, 0, "cpu")
    write_feature_draft(tmp_path / "draft", model, {"plan": "feature"})
    voice = load_voice(str(llasa_folder), draft=str(tmp_path / "draft"))
    assert isinstance(voice.draft, FeatureDraft)
    prompt = voice.reader.prompt("hello", next(iter(voice.references.values())))
    runners = make_runners(voice.target, voice.draft, [prompt], 4)
    for each in runners:
        each.prefill()
    (proposal,) = runners[1].propose(
        [RowRequest(0, [], Plain(0.8), coins=torch.rand(3, dtype=torch.float64, generator=coins()))]
    )
    assert proposal.probs.shape == (3, 65_537)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"taps": "0,2"}, "taps"),
        ({"taps": "2,1"}, "taps"),
        ({"taps": "1,5"}, "taps"),
        ({"taps": "a"}, "taps"),
        ({"taps": ""}, "taps"),
        ({"plan": "pcg", "taps": "1"}, "taps"),
        ({"plan": "pcg", "rank": 8}, "rank"),
        ({"objective": "luck"}, "objective"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, more, said):
    with pytest.raises(InputError, match=f"{said} is"):
        DraftJob("embedded", tmp_path, tmp_path, **{"plan": "feature"} | more).tapped(4)
