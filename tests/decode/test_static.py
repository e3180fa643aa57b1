"""Fixed shapes say what free ones say. Without a GPU nothing is recorded, but every function that would be is run."""

import pytest
import torch

from pcg.decode.cuda_graphs import GraphModel, GraphPool, GraphRunner, draw_each
from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, autoregressive, speculative
from pcg.models.llama import DecodingLlama
from pcg.rules import Verdict, exact
from pcg.sampling import Plain, draw
from pcg.synthesis.voice import load_llama, load_voice

TEXTS = ("hello", "hello, this is one sentence", "yes")


@pytest.fixture(scope="module")
def voice(tiny_voice_folder):
    return load_voice(str(tiny_voice_folder))


@pytest.fixture(scope="module")
def models(voice, tiny_voice_folder):
    parts = [load_llama(tiny_voice_folder / part, voice.vocabulary) for part in ("target", "draft")]
    return [DecodingLlama(part, voice.vocabulary, compiled=False) for part in parts]


def prompts(voice):
    return [voice.reader.prompt(text, voice.references["one"]) for text in TEXTS]


def codes_alone(drafted, p, q, coins):
    """Accepts all but the end of speech, so that a row speaks to its limit."""
    kept = int((drafted < q.shape[1] - 1).long().cumprod(0).sum())
    return Verdict(kept, int(q[kept, :-1].argmax()), "bonus", ())


def generators():
    return [torch.Generator().manual_seed(seed) for seed in (1, 2, 3)]


def free(voice, models):
    return [ModelRunner(model, prompts(voice), 40) for model in models]


def static(voice, models):
    return [GraphRunner(GraphModel(model, 3, 120), prompts(voice), 40) for model in models]


@pytest.mark.parametrize("confidence", [None, 0.2])
def test_a_static_batch_says_what_a_free_one_says(voice, models, confidence):
    said = []
    for make in (free, static):
        target, draft = make(voice, models)
        for runners in (target, draft):
            runners.prefill()
        steps = speculative(target, draft, exact, Drafting(3, confidence), begin(Plain(0.8), [25, 12, 30], generators()))
        said.append([{row: (r.tokens, r.drafted) for row, r in step.items()} for step in steps])
    assert said[0] == said[1]
    assert len(said[0][-1]) < 3


def test_rows_may_speak_before_others_have_read_their_prompts(voice, models):
    """As in the warm-up of hierarchical decoding."""
    said = []
    for make in (free, static):
        target, draft = make(voice, models)
        for runners in (target, draft):
            runners.prefill([0])
        lines = begin(Plain(0.8), [25], generators()[:1])
        said.append([step[0].tokens for step in speculative(target, draft, exact, Drafting(3), lines)])
    assert said[0] == said[1]


def test_rows_that_have_ended_stay_within_the_cache(voice, models):
    """They take part in every call, and the room is that of the decoder: the limit and a round."""
    limit, lookahead, same = 20, 8, [prompts(voice)[1]] * 2
    room = limit + lookahead + 1
    for seed in range(4):
        runners = [GraphRunner(GraphModel(model, 2, len(same[0].ids) + room), same, room) for model in models]
        for each in runners:
            each.prefill()
        coins = [torch.Generator().manual_seed(each) for each in (seed, 100 + seed)]
        rounds = list(speculative(*runners, codes_alone, Drafting(lookahead), begin(Plain(0.8), [limit] * 2, coins)))
        assert sum(len(step[0].tokens) for step in rounds if 0 in step) == limit


def test_one_static_model_serves_one_utterance_after_another(voice, models):
    model = GraphModel(models[0], 3, 120)
    said = []
    for _ in range(2):
        target = GraphRunner(model, prompts(voice), 40)
        target.prefill()
        said.append([step[0].tokens for step in autoregressive(target, begin(Plain(0.8), [10, 10, 10], generators()))])
    assert said[0] == said[1]


def test_a_pool_lends_a_model_to_one_borrower_at_a_time(voice, models):
    pool = GraphPool()
    first = pool.runners(models[0], prompts(voice), 40)
    second = pool.runners(models[0], prompts(voice), 40)
    assert first.static is not second.static
    pool.give_back(first)
    assert pool.runners(models[0], prompts(voice), 40).static is first.static
    pool.give_back(second)
    assert pool.runners(models[0], prompts(voice), 500).static is not second.static


def test_too_small_a_model_says_so(voice, models):
    with pytest.raises(ValueError, match="do not fit"):
        GraphRunner(GraphModel(models[0], 3, 50), prompts(voice), 40)


def test_rows_are_drawn_as_single_laws_are():
    generator = torch.Generator().manual_seed(0)
    laws = torch.rand(200, 30, generator=generator) * (torch.rand(200, 30, generator=generator) < 0.4)
    laws[:, 7] += 1e-3
    coins = torch.rand(200, generator=generator, dtype=torch.float64)
    coins[:20], coins[20:40] = 0.0, 1 - 2**-53
    assert draw_each(laws, coins).tolist() == [draw(law, float(coin)) for law, coin in zip(laws, coins, strict=True)]
