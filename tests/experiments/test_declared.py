"""The declared grids: what the papers need, within the time that they may take, and nothing said twice."""

from collections import Counter
from itertools import pairwise

import pytest

from pcg.errors import InputError
from pcg.experiments.grids import APART, COUNTS, SET, THETAS, TITLES, declared
from pcg.experiments.results import method
from pcg.experiments.unit import Unit, Utterance
from pcg.sampling import EntropyAware, sampler_of

UTTERANCES = tuple(Utterance(f"Sentence {i}.", "one") for i in range(250))


def wider(similarity: str, theta: float) -> float:
    return {"mel": 0.3}[similarity] + 0.5 * theta


def units(quick: bool, utterances: tuple[Utterance, ...] = UTTERANCES) -> dict[str, Unit]:
    grids = [declared(name, utterances, quick, wider) for name in SET]
    return {unit.key("voice"): unit for grid in grids for unit in grid.units()}


def test_the_whole_set_fits_its_time_and_the_main_settings_have_their_number() -> None:
    said = list(units(quick=False).values())
    assert len(said) <= 5500  # at 0.8 seconds a unit, 75 minutes
    counts = Counter(unit.condition.name for unit in said)
    main = ("AR", "SD", "SSD, beta 0.2", "SSD, beta 0.3", "PCG, theta 0.4", "PCG, theta 0.3", "PCG, theta 0.2")
    assert all(counts[name] >= 200 for name in main)
    assert len(units(quick=True)) <= 310  # three minutes of two cores


def test_grids_share_what_they_say() -> None:
    alone = sum(len(declared(name, UTTERANCES, False, wider).units()) for name in SET)
    assert len(units(quick=False)) < 0.85 * alone
    main = set(declared("main", UTTERANCES, False, wider).utterances)
    for name in set(TITLES) - {"paper"}:  # the papers' 500 are of LibriTTS
        for quick in (False, True):
            assert set(declared(name, UTTERANCES, quick, wider).utterances) <= main


@pytest.mark.parametrize("name", TITLES)
def test_utterances_are_spread_and_names_are_told_apart(name: str) -> None:
    for quick in (False, True):
        grid = declared(name, UTTERANCES, quick, wider)
        assert len(grid.utterances) == min(COUNTS[name][quick], len(UTTERANCES))
        places = [UTTERANCES.index(u) for u in grid.utterances]
        steps = {b - a for a, b in pairwise(places)}
        assert max(steps) - min(steps) <= 1
        assert len({c.name for c in grid.conditions}) == len(grid.conditions)


def test_the_samplers_stand_apart_and_say_as_many_twisters_as_everyday_sentences() -> None:
    assert APART == ("originals", "paper")
    assert set(SET) | set(APART) == set(TITLES)
    sections = ("everyday", "balanced", "twisters", "rare")
    utterances = tuple(Utterance(f"Sentence {i}.", "one", sections[i % 4]) for i in range(200))
    for quick, half in ((False, 40), (True, 1)):
        grid = declared("mspoof", utterances, quick, wider)
        assert Counter(u.section for u in grid.utterances) == {"everyday": half, "twisters": half}
        assert [c.name for c in grid.conditions] == ["Original", "top-p", "RAS", "EAS", "HierRAS", "HierEAS"]
        assert {c.settings.temperature for c in grid.conditions} == {1.0}
        assert [c.settings.hierarchical for c in grid.conditions] == [False] * 4 + [True] * 2
    original, control, _, eas = (c.settings for c in grid.conditions[:4])
    assert (original.sampler, original.top_k, original.top_p) == ("plain", 50, 0.0)
    assert control == original.with_(top_p=EntropyAware(1.0).top_p)
    assert sampler_of(eas) == EntropyAware(1.0, top_k=control.top_k, top_p=control.top_p)
    assert len({c.settings for c in grid.conditions}) == 6


def test_every_table_of_the_papers_has_its_conditions() -> None:
    conditions = {unit.condition for unit in units(quick=False).values()}
    assert {method(c) for c in conditions} >= {
        "AR", "draft", "SD", "SSD", "PCG cosine", "PCG Mel", "membership", "typical",
        "swap cosine", "swap Mel", "random swap",
    }  # fmt: skip
    plain = [c for c in conditions if not c.rule]
    for name in ("SD", "SSD", "PCG cosine"):
        assert {c.settings.lookahead for c in plain if method(c) == name} == set(range(1, 9))
    assert {c.settings.beta for c in plain if method(c) == "SSD"} >= {0.1, 0.2, 0.3, 0.4}


def test_groups_by_other_similarities_have_the_theta_that_was_found_for_them() -> None:
    grid = declared("tradeoff", UTTERANCES, False, wider)
    found = {c.settings.theta for c in grid.conditions if method(c) == "PCG Mel"}
    assert found == {wider("mel", theta) for theta in THETAS}
    swap = declared("swap", UTTERANCES, False, wider)
    assert {c.swap.theta for c in swap.conditions if method(c) == "swap Mel"} == found


def test_a_similarity_that_has_no_such_groups_is_left_out() -> None:
    def none(similarity: str, theta: float) -> float:
        raise InputError("theta", theta, "one whose groups this voice has")

    for theta_for, conditions in ((none, 0), (lambda similarity, theta: 0.7, 1)):
        # A scale so coarse that every size has the same theta gives one condition, not three.
        methods = Counter(method(c) for c in declared("tradeoff", UTTERANCES, False, theta_for).conditions)
        assert methods["PCG Mel"] == conditions


def test_few_utterances_are_all_said_and_an_unknown_name_is_refused() -> None:
    few = UTTERANCES[:5]
    assert declared("main", few, False, wider).utterances == few
    with pytest.raises(InputError, match="experiment is 'mian', but must be one of main, tradeoff"):
        declared("mian", few, False, wider)
