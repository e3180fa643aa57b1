"""A feature draft learns as it is decoded: the unrolled steps are those of the loop, and what it learns is what is accepted."""

import pytest
import torch
from tiny_target import (
    CODES,
    READER,
    VOCABULARY,
    coins,
    make_material,
    make_spoken,
    make_target,
    make_trial,
    read_log,
    same_voice,
)

from pcg.decode.runners import make_runners
from pcg.decode.sequence import RowRequest
from pcg.errors import InputError
from pcg.models.feature_draft import usual_taps
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint
from pcg.sampling import Plain
from pcg.text.prompt import Prompt
from pcg.training.draft import DraftRecipe, train_draft
from pcg.training.feature_draft import FeatureModel, TapPlaces, divergence, low_rank
from pcg.training.models import read_target
from pcg.training.tokens import collate, make_row


def random_model(target, rank=0):
    """One whose every part matters, as far from the start as a trained one."""
    model = FeatureModel(target, VOCABULARY, usual_taps(4), rank)
    rng = coins(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=rng))
    return model


@pytest.mark.parametrize("rank", [0, 5])
def test_unrolled_steps_are_those_of_the_loop(rank):
    """At every position, what the module's step k computes is what the k-th drafted token is drawn from."""
    target = make_target()
    model, checkpoint = random_model(target, rank), Checkpoint.of(target)
    spoken = same_voice(2)
    row = make_row(spoken, READER, CODES)
    batch = collate([row, make_row([same_voice(2)[1]] * 2, READER, CODES)])  # with padding
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


@pytest.mark.parametrize(("kl", "tv"), [(1.0, 0.0), (0.3, 1.0)])
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


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 5])
def test_training_raises_the_overlap_and_what_the_engine_accepts(tmp_path, rank, monkeypatch):
    monkeypatch.setattr("pcg.training.draft.EVERY", 20)
    target = make_target(scale=12.0)
    first = make_trial(target).accepted(FeatureModel(target, VOCABULARY, usual_taps(4), rank))
    recipe = DraftRecipe(plan="feature", steps=60, samples=80, budget=300, lr=1e-2, temperature=1.0, rank=rank)
    draft = recipe.new_draft(target, VOCABULARY)
    train_draft(tmp_path, draft, target, make_material(make_spoken(60)), recipe, "cpu")
    found = make_trial(target).accepted(draft)
    rows = read_log(tmp_path / "draft.jsonl")
    assert [row["step"] for row in rows] == [20, 40, 60]
    for step in (1, 2, 3):
        assert rows[-1][f"overlap_{step}"] > rows[0][f"overlap_{step}"]
    assert found["sd"] > first["sd"] + 0.05


@pytest.mark.parametrize("choices", [{"plan": "pcg", "rank": 8}, {"rank": 17}])
def test_a_rank_that_does_not_fit_is_named(choices):
    recipe = DraftRecipe.of({"plan": "feature"} | choices)
    with pytest.raises(InputError, match="rank is"):
        recipe.new_draft(make_target(), VOCABULARY)
