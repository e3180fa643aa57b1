"""Hierarchical decoding on the tiny voice, with detectors that are trained on nothing, or that like what they are told to."""

from collections.abc import Sequence

import pytest
import torch
from untrained_detectors import Even, untrained

from pcg.decode.beam_search import Hierarchy
from pcg.errors import InputError
from pcg.rules import exact
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Cycle, Round, Take

TEXT = "The quick brown fox jumps over a lazy dog, and is this one sentence?"
SMALL = Hierarchy(warmup=5, stages=(4, 8, 12), beams=(4, 3, 2))


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"), detectors=untrained())


@pytest.fixture(scope="module")
def fond(synthesizer: Synthesizer) -> Synthesizer:
    return Synthesizer(synthesizer.voice, detectors=untrained(Even))


def search(synthesizer: Synthesizer, plan: Hierarchy, method: str = "ar", seed: int = 1) -> tuple[list[Cycle], list[Round]]:
    settings = Settings(method, temperature=1.0, hierarchical=True)
    speaker, generator = synthesizer.voice.reference("one"), torch.Generator().manual_seed(seed)
    rule = synthesizer.rule(settings) if method != "sd" else exact
    steps = list(synthesizer.decoder.steps(TEXT, speaker, settings, rule, generator, plan))
    return [s for s in steps if isinstance(s, Cycle)], [s for s in steps if not isinstance(s, Cycle)]


def tokens(rounds: Sequence[Round]) -> list[int]:
    return [token for round_ in rounds for token in round_.tokens]


@pytest.mark.parametrize("method", ["ar", "sd", "ssd", "pcg"])
@pytest.mark.parametrize("sampler", ["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ras", "eas"))])
def test_with_one_beam_it_is_plain_sampling(synthesizer: Synthesizer, method: str, sampler: str) -> None:
    settings, speaker = Settings(method, temperature=0.9, sampler=sampler), synthesizer.voice.reference("one")
    said = []
    for hierarchical in (False, True):
        chosen, generator = settings.with_(hierarchical=hierarchical), torch.Generator().manual_seed(4)
        one = Hierarchy(beams=(1, 1, 1))
        steps = synthesizer.decoder.steps(TEXT, speaker, chosen, synthesizer.rule(settings), generator, one)
        said.append(tokens([step for step in steps if not isinstance(step, Cycle)]))
    assert said[0] == said[1]
    assert len(said[0]) > 12


@pytest.mark.parametrize("method", ["sd", "pcg"])
def test_a_beam_says_what_it_would_have_said_alone(synthesizer: Synthesizer, method: str) -> None:
    """The caches that were copied, and not computed again, hold what they should: the target finds each token as probable."""
    cycles, rounds = search(synthesizer, SMALL, method, seed=2)
    assert len(cycles) > 2
    spoken = tokens(rounds)
    for cycle in cycles:
        for branch in cycle.branches:
            said = [*spoken[: cycle.start], *branch.tokens]
            expected, position = replay(synthesizer, said), cycle.start
            for round_ in branch.rounds:
                kept = [test.q for test in round_.tests[: round_.accepted]][: len(said) - position]
                assert kept == pytest.approx(expected[position : position + len(kept)], abs=1e-4)
                position += len(round_.tokens)


def replay(synthesizer: Synthesizer, said: Sequence[int]) -> list[float]:
    """The target's probability of each token of `said`, read at once."""
    from pcg.decode.model_runner import ModelRunner

    prompt = synthesizer.voice.reader.prompt(TEXT, synthesizer.voice.reference("one"))
    reader = ModelRunner(synthesizer.voice.target, [prompt], len(said) + 1)
    reader.prefill()
    laws = reader.feed([0], [said], len(said) + 1)[0].softmax(-1)
    return [float(law[token]) for law, token in zip(laws, said, strict=False)]


def test_a_seed_decides(synthesizer: Synthesizer) -> None:
    first, again, other = (search(synthesizer, SMALL, "pcg", seed) for seed in (1, 1, 2))
    assert tokens(first[1]) == tokens(again[1])
    assert [c.chosen for c in first[0]] == [c.chosen for c in again[0]]
    assert tokens(first[1]) != tokens(other[1])


def test_stages_prune_to_the_plan_and_the_best_stays(fond: Synthesizer) -> None:
    cycles, rounds = search(fond, SMALL)
    assert len(cycles[0].branches) == 1
    assert tokens(rounds) == [t for c in cycles for t in c.branches[c.chosen].tokens]
    for cycle in cycles[1:]:
        stages = sorted((b.stages for b in cycle.branches), reverse=True)
        assert stages == [3, 3, 2, 1]
        pruned = [b.scores["M10"] for b in cycle.branches if b.stages == 1]
        assert max(pruned) <= min(b.scores["M10"] for b in cycle.branches if b.stages > 1)
        finalists = [b for b in cycle.branches if b.stages == 3]
        assert cycle.branches[cycle.chosen].rank == min(b.rank for b in finalists)


def test_detectors_get_what_they_like(fond: Synthesizer) -> None:
    def evens(plan: Hierarchy) -> float:
        said = [t for seed in range(5) for t in tokens(search(fond, plan, seed=seed)[1])]
        return sum(t % 2 == 0 for t in said) / len(said)

    assert evens(Hierarchy(warmup=0, stages=(10, 25, 50))) > evens(Hierarchy(beams=(1, 1, 1))) + 0.03


def test_a_take_knows_what_it_cost(synthesizer: Synthesizer) -> None:
    plain = synthesizer.take(TEXT, Settings("ar", temperature=1.0), "one")
    searched = synthesizer.take(TEXT, Settings("ar", temperature=1.0, hierarchical=True), "one")
    assert isinstance(searched, Take)
    assert plain.computed_per_token == pytest.approx(1, abs=0.05)
    assert searched.computed_per_token > 2
    assert searched.cycles
    assert not plain.cycles
    assert len(searched.audio) == len(searched.tokens) * synthesizer.voice.codec.hop


def test_without_detectors_there_is_no_hierarchy(synthesizer: Synthesizer) -> None:
    bare = Synthesizer(synthesizer.voice)
    with pytest.raises(InputError, match="spoof detectors"):
        bare.take(TEXT, Settings(hierarchical=True), "one")
