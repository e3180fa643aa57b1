"""A draft is cut from its target as its plan says, learns, and is tried by the engine itself."""

import pytest
import torch
from tiny_target import READER, VOCABULARY, coins, make_material, make_spoken, make_target, make_trial, read_log

from pcg.errors import InputError
from pcg.models.llama import DecodingLlama
from pcg.models.weights import load_llama
from pcg.training.draft import DraftRecipe, draw_pairs, new_draft, plan_layers, train_draft
from pcg.training.models import write_model
from pcg.training.samples import own_samples
from pcg.training.tokens import TokenizedUtterance


@pytest.mark.parametrize(
    ("words", "depth", "layers"),
    [("pcg", 32, (0, 30, 31)), ("pcg", 2, (0, 1)), ("ssd", 24, (0, 1, 18, 19, 20, 21, 22, 23)), ("0,1,27", 28, (0, 1, 27))],
)
def test_plans_name_the_papers_layers_for_any_depth(words, depth, layers):
    assert plan_layers(words, depth)[0] == layers


@pytest.mark.parametrize("words", ["", "best", "3,1", "1,1", "0,28", "0,,1", "²", "9" * 5000])
def test_other_plans_are_refused(words):
    with pytest.raises(InputError, match="plan is"):
        plan_layers(words, 28)


def test_of_an_ssd_draft_only_the_first_two_layers_and_the_head_learn(tmp_path):
    target = make_target(9)
    draft = new_draft(target, *plan_layers("ssd", 9))
    before = {name: weight.clone() for name, weight in draft.state_dict().items()}
    assert torch.equal(before["lm_head.weight"], target.lm_head.weight)
    recipe = DraftRecipe(plan="ssd", steps=2, budget=300)
    train_draft(tmp_path, draft, target, make_material(), recipe, "cpu")
    changed = {name for name, weight in draft.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {n for n in before if n.startswith(("model.layers.0.", "model.layers.1.", "lm_head"))}


@pytest.mark.parametrize(("tied", "plan"), [(True, "pcg"), (True, "ssd"), (False, "pcg"), (False, "ssd")])
def test_a_written_draft_comes_back_tied_as_it_was(tmp_path, tied, plan):
    target = make_target(9, tied)
    target.config.tie_word_embeddings = True  # a config may be wrong
    draft = new_draft(target, *plan_layers(plan, 9))
    assert torch.equal(draft.lm_head.weight, target.lm_head.weight)
    with torch.no_grad():
        draft.lm_head.weight.add_(1.0)
    write_model(tmp_path, draft)
    again = load_llama(tmp_path, VOCABULARY)
    for name, weight in draft.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight.bfloat16().float()), name
    assert (again.lm_head.weight is again.get_input_embeddings().weight) == (tied and plan == "pcg")


def test_a_draft_of_layers_learns_the_tokens_of_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr("pcg.training.draft.EVERY", 5)
    target = make_target()
    spoken = own_samples(tmp_path / "s", DecodingLlama(target, VOCABULARY), make_spoken(40), READER, 60, 1.0)
    recipe = DraftRecipe(plan="0,3", steps=20, budget=300, lr=1e-2)
    draft = recipe.new_draft(target, VOCABULARY)
    found = train_draft(tmp_path, draft, target, make_material(spoken), recipe, "cpu")
    rows = read_log(tmp_path / "draft.jsonl")
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.05
    assert found == {name.removeprefix("held_out_"): value for name, value in rows[-1].items() if "held_out" in name}


def test_a_trial_accepts_all_of_the_target_and_little_of_another_model():
    target = make_target()
    # Drafted one by one, since what is drafted behind an end of speech counts as not accepted.
    trial = make_trial(target, lookahead=1)
    itself = trial.accepted(new_draft(target, (0, 1, 2, 3)))
    assert itself["sd"] > 0.99
    assert itself["pcg"] > 0.99
    with torch.no_grad():
        stranger = new_draft(target, (0, 3))
        for weight in stranger.parameters():
            weight.copy_(torch.randn(weight.shape, generator=coins(1)))
    other = trial.accepted(stranger)
    assert other["sd"] < other["pcg"] + 1e-9
    assert other["sd"] < 0.6
    assert trial.accepted(stranger) == other


def test_held_out_pairs_share_a_voice_and_no_utterance():
    spoken = [*make_spoken(11), TokenizedUtterance("alone", "hello", [1, 2], torch.zeros(3).long())]
    pairs = draw_pairs(spoken, 100, seed=0)
    assert len(pairs) == 5
    assert all(a.voice == b.voice for a, b in pairs)
    assert len({id(u) for pair in pairs for u in pair}) == 10
    assert [a.voice for a, _ in draw_pairs(spoken, 4, seed=0)] == ["x", "y", "x", "y"]


def test_own_samples_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("pcg.training.samples.SAMPLE_SHARD", 16)
    asked = (DecodingLlama(make_target(), VOCABULARY), make_spoken(20), READER, 40, 1.0)
    whole = own_samples(tmp_path / "whole", *asked)
    assert 10 < len(whole) <= 40
    own_samples(tmp_path / "two", *asked)
    kept = tmp_path / "two" / "00001.json"
    written = kept.stat().st_mtime_ns
    (tmp_path / "two" / "00000.json").unlink()
    again = own_samples(tmp_path / "two", *asked)
    assert [u.codes.tolist() for u in again] == [u.codes.tolist() for u in whole]
    assert kept.stat().st_mtime_ns == written
