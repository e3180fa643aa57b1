"""A draft is cut from its target as its plan says, learns what its objective says, and is tried by the engine itself."""

import json

import pytest
import torch

from pcg.errors import InputError
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import load_llama
from pcg.settings import Settings
from pcg.text.prompt import PhonemeReader
from pcg.training.layer_draft import OBJECTIVES, DraftPlan, Material, Objective, Schedule, new_draft, train_draft, write_draft
from pcg.training.samples import AcceptanceTrial, Examiner, Sampling, draw_pairs, own_samples, sd_and_pcg, tokens_path
from pcg.training.target import Shape, new_target
from pcg.training.tokens import TokenizedUtterance

READER = PhonemeReader(tuple("helo.j"), (2.0,) * 6)
CODES = 16
VOCABULARY = Vocabulary(CODES, READER.first_code, READER.end)
USED = torch.ones(CODES, dtype=torch.bool)


def make_target(layers=4, tied=True, scale=6.0):
    target = new_target(READER, VOCABULARY, Shape(layers, 16, 2, 24), seed=0)
    if not tied:
        target.config.tie_word_embeddings = False
        target.lm_head.weight = torch.nn.Parameter(torch.randn(target.lm_head.weight.shape, generator=coins()))
    with torch.no_grad():
        # Far from the tiny initial weights, so that layers matter.
        for weight in target.parameters():
            weight.mul_(scale if weight.ndim == 2 else 1.0)
    return target.eval()


def coins(seed=0):
    return torch.Generator().manual_seed(seed)


def make_spoken(count, seed=0):
    rng = coins(seed)
    return [
        TokenizedUtterance(
            ("x", "y")[i % 2], "hello", READER.read("hello"), torch.randint(0, CODES, (10 + i % 5,), generator=rng)
        )
        for i in range(count)
    ]


def train(directory, draft, target, objective, schedule, samples=None, evaluate=None):
    corpus = make_spoken(40)
    material = Material(corpus, corpus if samples is None else samples, READER, VOCABULARY)
    train_draft(directory, draft, target, material, objective, schedule, 0, "cpu", evaluate)
    return draft


@pytest.mark.parametrize(
    ("words", "depth", "layers"),
    [
        ("pcg", 32, (0, 30, 31)),
        ("pcg", 3, (0, 1, 2)),
        ("pcg", 2, (0, 1)),
        ("ssd", 24, (0, 1, 18, 19, 20, 21, 22, 23)),
        ("ssd", 12, (0, 1, 6, 7, 8, 9, 10, 11)),
        ("ssd", 5, (0, 1, 2, 3, 4)),
        ("0,1,27", 28, (0, 1, 27)),
    ],
)
def test_plans_name_the_papers_layers_for_any_depth(words, depth, layers):
    assert DraftPlan.read(words, depth).layers == layers


@pytest.mark.parametrize("words", ["", "best", "3,1", "1,1", "0,28", "-1,2", "0,,1", "0 1", "²", "9" * 5000])
def test_other_plans_are_refused(words):
    with pytest.raises(InputError, match="plan is"):
        DraftPlan.read(words, 28)


@pytest.mark.parametrize("tied", [True, False])
def test_of_an_ssd_draft_only_the_first_two_layers_and_the_head_learn(tmp_path, tied):
    target = make_target(9, tied)
    draft = new_draft(target, DraftPlan.ssd(9))
    before = {name: weight.clone() for name, weight in draft.state_dict().items()}
    assert torch.equal(before["lm_head.weight"], target.lm_head.weight)
    train(tmp_path, draft, target, OBJECTIVES["ce"], Schedule(2, budget=300))
    changed = {name for name, weight in draft.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {n for n in before if n.startswith(("model.layers.0.", "model.layers.1.", "lm_head"))}


@pytest.mark.parametrize(("tied", "plan"), [(True, "pcg"), (True, "ssd"), (False, "pcg"), (False, "ssd")])
def test_a_written_draft_comes_back_tied_as_it_was(tmp_path, tied, plan):
    draft = new_draft(make_target(9, tied), DraftPlan.read(plan, 9))
    with torch.no_grad():
        draft.lm_head.weight.add_(1.0)
    write_draft(tmp_path, draft, {"plan": plan})
    again = load_llama(tmp_path, VOCABULARY)
    for name, weight in draft.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight.bfloat16().float()), name
    assert (again.lm_head.weight is again.get_input_embeddings().weight) == (tied and plan == "pcg")


def test_a_target_whose_config_lies_about_its_head_keeps_the_head():
    target = make_target(tied=False)
    target.config.tie_word_embeddings = True
    draft = new_draft(target, DraftPlan((0, 3)))
    assert torch.equal(draft.lm_head.weight, target.lm_head.weight)
    assert torch.equal(draft.get_input_embeddings().weight, target.get_input_embeddings().weight)
    assert not draft.config.tie_word_embeddings


def test_batches_are_own_samples_as_often_as_the_objective_says():
    taken = [OBJECTIVES["distil"].takes_own(n) for n in range(8)]
    assert taken == [True, True, True, False] * 2
    assert not any(OBJECTIVES["ce"].takes_own(n) for n in range(20))
    assert all(Objective(0, 1, 1).takes_own(n) for n in range(20))
    assert sum(Objective(0, 1, 0.3).takes_own(n) for n in range(1000)) == pytest.approx(300, abs=1)


def test_each_objective_brings_down_what_it_minimises_most(tmp_path):
    target = make_target()
    samples = own_samples(tmp_path / "s", DecodingLlama(target, VOCABULARY), make_spoken(40), READER, Sampling(60, 1.0))
    last = {}
    for name, objective in (("ce", Objective(1, 0, 1)), ("kl", Objective(0, 1, 1))):
        draft = new_draft(target, DraftPlan((0, 3)))
        schedule = Schedule(20, budget=300, lr=1e-2, every=5)
        train(tmp_path / name, draft, target, objective, schedule, samples=samples)
        rows = [json.loads(line) for line in (tmp_path / name / "draft.jsonl").read_text().splitlines()]
        last[name] = rows[-1]
        assert rows[-1][name] < rows[0][name] - 0.05
    assert last["kl"]["expected_acceptance"] > 0.5
    assert "expected_acceptance" not in last["ce"]


@pytest.mark.slow
def test_distillation_raises_what_the_engine_accepts(tmp_path):
    target = make_target()
    corpus = make_spoken(60)
    decoding = DecodingLlama(target, VOCABULARY)
    samples = own_samples(tmp_path / "s", decoding, corpus, READER, Sampling(60, 1.0))
    examiner = Examiner(target, trial(target, make_spoken(40, seed=1)))
    draft = new_draft(target, DraftPlan((0, 3)))
    schedule = Schedule(24, budget=300, lr=1e-2, every=12, rows_between=1)
    train(tmp_path, draft, target, Objective(0, 1, 1), schedule, None, samples, lambda: examiner.figures(draft))
    rows = [json.loads(line) for line in (tmp_path / "draft.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 12, 24]
    for name in ("sd", "pcg", "expected"):
        assert rows[-1][f"held_out_{name}"] > rows[0][f"held_out_{name}"] + 0.1


def trial(target, spoken, lookahead=3):
    rules = sd_and_pcg(target, VOCABULARY, USED, 0.5)
    return AcceptanceTrial(draw_pairs(spoken, 8, 0), READER, VOCABULARY, rules, Settings(temperature=1.0, lookahead=lookahead))


def test_a_trial_accepts_all_of_the_target_and_little_of_another_model():
    target = make_target()
    # Drafted one by one, since what is drafted behind an end of speech counts as not accepted.
    examiner = Examiner(target, trial(target, make_spoken(40), lookahead=1))
    itself = examiner.examine(new_draft(target, DraftPlan((0, 1, 2, 3))))
    assert itself["sd"].value > 0.99
    assert itself["pcg"].value > 0.99
    assert itself["expected"].value == pytest.approx(1.0, abs=1e-4)
    with torch.no_grad():
        stranger = new_draft(target, DraftPlan((0, 3)))
        for weight in stranger.parameters():
            weight.copy_(torch.randn(weight.shape, generator=coins(1)))
    other = examiner.examine(stranger)
    assert other["sd"].value < other["pcg"].value + 1e-9
    assert other["sd"].value < 0.6
    assert other["expected"].value < 0.6
    assert examiner.examine(stranger) == other


def test_held_out_pairs_share_a_voice_and_no_utterance():
    spoken = [*make_spoken(11), TokenizedUtterance("alone", "hello", [1, 2], torch.zeros(3).long())]
    pairs = draw_pairs(spoken, 100, seed=0)
    assert len(pairs) == 5
    assert all(a.voice == b.voice for a, b in pairs)
    assert len({id(u) for pair in pairs for u in pair}) == 10
    assert [a.voice for a, _ in draw_pairs(spoken, 4, seed=0)] == ["x", "y", "x", "y"]


def test_own_samples_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("pcg.training.samples.SAMPLE_SHARD", 16)
    decoding, corpus, sampling = DecodingLlama(make_target(), VOCABULARY), make_spoken(20), Sampling(40, 1.0)
    whole = own_samples(tmp_path / "whole", decoding, corpus, READER, sampling)
    assert 10 < len(whole) <= 40
    own_samples(tmp_path / "two", decoding, corpus, READER, sampling)
    kept = tokens_path(tmp_path / "two", 1)
    written = kept.stat().st_mtime_ns
    tokens_path(tmp_path / "two", 0).unlink()
    again = own_samples(tmp_path / "two", decoding, corpus, READER, sampling)
    assert [u.codes.tolist() for u in again] == [u.codes.tolist() for u in whole]
    assert kept.stat().st_mtime_ns == written
