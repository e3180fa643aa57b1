"""Prompt lookup: what it copies, that no rule notices the difference, and that it works wherever a draft does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decode.cuda_graphs import GraphModel, GraphRunner
from pcg.decode.draft import LookupRunner, PromptLookup, RowRequest
from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import load_llama
from pcg.rules import Coins, Verdict, coarse, exact
from pcg.sampling import Plain, draw, probabilities
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Sound
from pcg.text.prompt import Prompt

SPEECH = Vocabulary(codes=7, first_code=4, end=2)
TEMPERATURE = 0.8
ROWS, DRAWS = 2000, 8000
BOUND = 0.028
"""Twice the 0.4 sqrt(9 / 8000) = 0.0134 by which a sample of a law of 9 outcomes strays from it: two standard errors more."""


def prompt(*codes: int) -> Prompt:
    ids = torch.tensor([1, 3, 0, *(code + SPEECH.first_code for code in codes)])
    return Prompt(ids, torch.arange(len(ids), dtype=torch.float32), float(len(ids)))


def copied(runners: LookupRunner, unread: list[int], count: int = 3, confidence: float | None = None) -> list[int]:
    (proposal,) = runners.propose([RowRequest(0, unread, Plain(TEMPERATURE), coins=torch.zeros(count))], confidence)
    assert proposal.probs.shape == (len(proposal.drafted), SPEECH.size)
    assert proposal.probs.argmax(1).tolist() == proposal.drafted.tolist()
    assert proposal.probs.sum(1).tolist() == [1.0] * len(proposal.drafted)
    return proposal.drafted.tolist()


@pytest.mark.parametrize(
    ("reference", "spoken", "wanted"),
    [
        ((0, 1, 2, 3), (0, 1), [2, 3, 0]),  # behind the end of the reference stands what was spoken since
        ((0, 1, 2, 4, 1, 3), (5, 0, 1), [2, 4, 1]),  # two codes in a row say more than the one that came again later
        ((1, 2, 1, 3), (1,), [3, 1, 3]),  # of two places that fit as well the later
        ((6,), (6,), [6, 6, 6]),  # a copy may run into itself
        ((0, 1, 2), (3,), []),
        ((), (), []),
        ((), (5,), []),
    ],
)
def test_what_followed_the_newest_codes_is_copied(
    reference: tuple[int, ...], spoken: tuple[int, ...], wanted: list[int]
) -> None:
    assert copied(PromptLookup(SPEECH).runners([prompt(*reference)]), list(spoken)) == wanted


def test_text_is_not_looked_up() -> None:
    """Ids of text would be codes below zero, and the end of speech is none either."""
    runners = PromptLookup(SPEECH).runners([prompt()])
    assert copied(runners, []) == []
    assert runners.read(0) == 0


def test_shorter_matches_than_asked_for_are_none() -> None:
    reference = prompt(0, 1, 2, 3)
    assert copied(PromptLookup(SPEECH, 3, 2).runners([reference]), [0]) == []
    assert copied(PromptLookup(SPEECH, 3, 2).runners([reference]), [0, 1])[:1] == [2]
    for longest, shortest in ((3, 0), (2, 3)):
        with pytest.raises(InputError, match="shortest"):
            PromptLookup(SPEECH, longest, shortest)
    with pytest.raises(InputError, match="longest"):
        PromptLookup(SPEECH, longest=0)


def test_rolling_back_forgets_and_nothing_drafted_is_remembered() -> None:
    runners = PromptLookup(SPEECH).runners([prompt(0, 1, 2), prompt(3, 3)])
    first = copied(runners, [0, 1])
    assert runners.read(0) == 2
    runners.roll_back(0, 1)
    assert runners.read(0) == 1
    assert copied(runners, [1]) == first
    assert runners.read(1) == 0
    with pytest.raises(ValueError, match="cannot roll back to 3"):
        runners.roll_back(0, 3)


@pytest.fixture(scope="module")
def target() -> DecodingLlama:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(5.0 if weight.ndim == 2 else 1.0)
    return DecodingLlama(model, SPEECH)


REFERENCE = prompt(0, 1, 3, 0, 1, 2, 3, 5, 4, 6, 2, 0)


def said(target: DecodingLlama, rule, limit: int, draws: int = DRAWS):
    """The rounds of `draws` utterances of `limit` tokens, every one with coins of its own."""
    for first in range(0, draws, ROWS):
        runners = ModelRunner(target, [REFERENCE] * ROWS, limit + 3)
        runners.prefill()
        copies = PromptLookup(SPEECH).runners([REFERENCE] * ROWS)
        generators = [torch.Generator().manual_seed(first + row) for row in range(ROWS)]
        rounds = [[] for _ in range(ROWS)]
        for step in speculative(runners, copies, rule, Drafting(2), begin(Plain(TEMPERATURE), [limit] * ROWS, generators)):
            for row, round_ in step.items():
                rounds[row].append(round_)
        yield from rounds


def second_token(rounds) -> int:
    tokens = [t for r in rounds for t in r.tokens] + ([SPEECH.eos] if rounds[-1].ended else [])
    return tokens[1] if len(tokens) > 1 else SPEECH.eos + 1


def law_behind(target: DecodingLlama, tokens: list[int]) -> torch.Tensor:
    runners = ModelRunner(target, [REFERENCE], 5)
    runners.prefill()
    return probabilities(runners.feed([0], [tokens], 1)[0, 0], TEMPERATURE).double()


def second_law(target: DecodingLlama) -> torch.Tensor:
    """The sum over first tokens x of q(x) q(. | x), and behind it the chance that there is no second."""
    first = law_behind(target, [])
    total = torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    for token in range(SPEECH.codes):
        total[:-1] += first[token] * law_behind(target, [token])
    total[-1] = first[SPEECH.eos]
    return total


def distance(outcomes: list[int], wanted: torch.Tensor) -> float:
    counts = torch.tensor(outcomes).bincount(minlength=len(wanted)).double()
    return float((counts / counts.sum() - wanted).abs().sum() / 2)


def careless(drafted, p, q, coins: Coins) -> Verdict:
    """As exact for the first drafted token, but a rejected one is replaced by a draw from q and not from the residual."""
    if len(drafted) and float(coins.accept[0]) < float(q[0, drafted[0]]):
        return Verdict(1, draw(q[1], coins.bonus), "bonus", ())
    return Verdict(0, draw(q[0], float(coins.residual[0])), "resampled", ())


@pytest.mark.slow
def test_the_second_token_of_sd_has_the_targets_law(target: DecodingLlama) -> None:
    utterances = list(said(target, exact, limit=2))
    assert {len(r.drafted) for rounds in utterances for r in rounds} >= {2}
    assert 0.02 < np.mean([rounds[0].accepted > 0 for rounds in utterances]) < 0.98
    assert distance([second_token(rounds) for rounds in utterances], second_law(target)) < BOUND


def test_the_bound_rejects_a_careless_rule(target: DecodingLlama) -> None:
    outcomes = [second_token(rounds) for rounds in said(target, careless, limit=2, draws=ROWS)]
    assert distance(outcomes, second_law(target)) > 2 * BOUND


@pytest.mark.slow
@pytest.mark.parametrize("residual", ["dense", "thinning"])
def test_the_group_that_pcg_draws_has_the_targets_coarse_law(target: DecodingLlama, residual: str) -> None:
    """Overlapping groups, and a control: to accept whatever was copied is not that law."""
    sets = [[0, 1, 2], [0, 1, 2, 3], [1, 2], [1, 3, 4], [3, 4], [5, 6], [5, 6], [7]]
    indptr = torch.tensor([0, *torch.tensor([len(s) for s in sets]).cumsum(0).tolist()])
    groups = Groups.from_sets(0.5, indptr, torch.tensor([t for s in sets for t in s]))
    drawn, copies = [], []
    for rounds in said(target, coarse(groups, residual), limit=1):
        test = rounds[0].tests[0]
        drawn.append(test.group if test.accepted else rounds[0].next_group)
        copies.append(test.group)
    wanted = groups.masses(law_behind(target, []))
    assert distance(drawn, wanted) < BOUND
    assert distance(copies, wanted) > 2 * BOUND


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder, tmp_path_factory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder), draft="lookup"), tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("method", ["sd", "ssd", "pcg"])
def test_a_batch_says_what_each_row_says_alone(synthesizer: Synthesizer, method: str) -> None:
    texts = ["hello", "hello, this is one sentence", "yes"]
    settings = [Settings(method, theta=0.3, temperature=1.0, seed=seed) for seed in (1, 2, 3)]
    together = synthesizer.takes(texts, settings, "one")
    for text, each, take in zip(texts, settings, together, strict=True):
        alone = synthesizer.take(text, each, "one")
        assert (take.tokens, [r.drafted for r in take.rounds]) == (alone.tokens, [r.drafted for r in alone.rounds])
    drafted = {len(r.drafted) for take in together for r in take.rounds}
    assert {0, 3} <= drafted


def test_pcg_with_singleton_groups_says_what_sd_says(synthesizer: Synthesizer) -> None:
    grouped, plain = (synthesizer.take("hello", Settings(method, theta=1.0, seed=4), "one") for method in ("pcg", "sd"))
    assert grouped.tokens == plain.tokens
    assert grouped.drafted > 0


def test_it_streams_and_adaptive_lookahead_changes_nothing(synthesizer: Synthesizer) -> None:
    settings = Settings(theta=0.3, seed=2)
    steps = list(synthesizer.speak("hello", settings, "one", stream=True))
    take = synthesizer.take("hello", settings, "one")
    assert steps[-1].tokens == take.tokens
    heard = np.concatenate([step.samples for step in steps if isinstance(step, Sound)])
    np.testing.assert_array_equal(heard, steps[-1].audio)
    adaptive = synthesizer.take("hello", settings.with_(adaptive=True), "one")
    assert adaptive.tokens == take.tokens
    assert [r.drafted for r in adaptive.rounds] == [r.drafted for r in take.rounds]


def test_without_a_match_a_round_is_one_step_of_the_target(synthesizer: Synthesizer, tmp_path) -> None:
    never = PromptLookup(synthesizer.voice.vocabulary, longest=30, shortest=30)
    silent = Synthesizer(replace(synthesizer.voice, draft=never), tmp_path)
    take = silent.take("hello", Settings("sd", seed=1), "one")
    assert take.acceptance_rate is None
    assert all(len(r.tokens) + r.ended == 1 for r in take.rounds)


def test_beside_a_static_target_it_says_the_same(synthesizer: Synthesizer, tiny_voice_folder) -> None:
    """Fixed shapes as a GPU has them, run plainly: the target is called with as many tokens as were copied, or one."""
    voice = synthesizer.voice
    model = DecodingLlama(load_llama(tiny_voice_folder / "target", voice.vocabulary), voice.vocabulary, compiled=False)
    prompts = [voice.reader.prompt(text, voice.references["one"]) for text in ("hello", "yes")]
    said = []
    for runners in (ModelRunner(model, prompts, 40), GraphRunner(GraphModel(model, 2, 120), prompts, 40)):
        runners.prefill()
        generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        copies = voice.draft.runners(prompts)
        steps = speculative(runners, copies, exact, Drafting(3), begin(Plain(0.8), [25, 18], generators))
        said.append([{row: (r.tokens, r.drafted) for row, r in step.items()} for step in steps])
    assert said[0] == said[1]
