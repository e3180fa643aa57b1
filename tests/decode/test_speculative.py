"""The loops on a whole tiny voice: exactness, caches, ends, and what a take records."""

import pytest
import torch

from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import DecodingSequence
from pcg.decode.speculative import to_the_end
from pcg.rules import Test, Verdict, all_accepted, exact
from pcg.sampling import Plain, as_array, probabilities


def runners(voice, limit=40, texts=("hello",)):
    prompts = [voice.reader.prompt(text, voice.references["one"]) for text in texts]
    both = [ModelRunner(model, prompts, limit) for model in (voice.target, voice.draft)]
    for reader in both:
        reader.prefill()
    return both


def run(voice, rule, lookahead=3, limit=12, seed=0, temperature=1.0):
    target, draft = runners(voice)
    sequence = DecodingSequence(0, limit, torch.Generator().manual_seed(seed), Plain(temperature), rule, lookahead)
    return [step[0] for step in to_the_end(target, draft, [sequence])]


def accept_everything(drafted, p, q, coins):
    return Verdict(len(drafted), int(q[-1].argmax()), "bonus", ())


def accept_codes(drafted, p, q, coins):
    """Everything up to an end of speech, which is never said."""
    eos = q.shape[1] - 1
    kept = next((i for i, token in enumerate(drafted.tolist()) if token == eos), len(drafted))
    return Verdict(kept, int(q[kept, :eos].argmax()), "bonus", ())


def reject_everything(drafted, p, q, coins):
    return Verdict(0, int(q[0].argmax()), "resampled", ())


@pytest.mark.parametrize("rule", [accept_everything, reject_everything, exact])
@pytest.mark.parametrize("lookahead", [1, 3, 5])
def test_the_target_law_at_each_round_is_that_of_the_text_so_far(voice, rule, lookahead):
    """Whatever was accepted or rolled back, the cached laws equal those of a fresh reading of all that was emitted."""
    seen = []

    def spy(drafted, p, q, coins):
        seen.append((drafted.clone(), q.clone(), p.clone()))
        return rule(drafted, p, q, coins)

    rounds = run(voice, spy, lookahead)
    emitted: list[int] = []
    for (drafted, q, p), step in zip(seen, rounds, strict=True):
        fresh_target, fresh_draft = runners(voice)
        wanted = probabilities(fresh_target.feed([0], [[*emitted, *drafted.tolist()]], lookahead + 1)[0], 1.0)
        torch.testing.assert_close(q, wanted, atol=1e-5, rtol=1e-3)
        drafts = probabilities(fresh_draft.feed([0], [[*emitted, *drafted.tolist()[:-1]]], lookahead)[0], 1.0)
        torch.testing.assert_close(p, drafts, atol=1e-5, rtol=1e-3)
        emitted += step.tokens


def test_the_loop_stops_at_the_end_of_speech_and_at_the_limit(voice):
    eos = voice.vocabulary.eos

    def ends(drafted, p, q, coins):
        return Verdict(1, eos, "resampled", ())

    for limit in (12, 2):  # where the end takes the last place, too
        rounds = run(voice, ends, limit=limit)
        assert len(rounds) == 1
        assert rounds[0].ended
        assert eos not in rounds[0].tokens
    for rule, lookahead in ((accept_codes, 4), (accept_codes, 6), (accept_codes, 8)):
        limited = run(voice, rule, lookahead, limit=7)
        assert sum(len(r.tokens) for r in limited) == 7
        assert not limited[-1].ended


def test_tests_of_what_is_not_said_are_not_told(voice):
    """Behind the end of speech, and beyond the limit."""
    eos = voice.vocabulary.eos

    def accept_all(drafted, q, coins):
        return all_accepted([Test(int(x), 1, 1, 1, 1, 1, 0, True) for x in drafted], as_array(q), coins)

    def codes(drafted, p, q, coins):
        return accept_all(drafted.clamp_(max=eos - 1), q, coins)

    def end_second(drafted, p, q, coins):
        drafted.clamp_(max=eos - 1)[1] = eos
        return accept_all(drafted, q, coins)

    (ended,) = run(voice, end_second, lookahead=4)
    assert (len(ended.tokens), ended.accepted, len(ended.tests)) == (1, 2, 2)
    last = run(voice, codes, lookahead=4, limit=7)[-1]
    assert (len(last.tokens), last.accepted, len(last.tests)) == (2, 2, 2)
