"""The declared grids: what the papers need, within the time that they may take, and nothing said twice."""

from collections import Counter

import pytest

from pcg.experiments.grids import EXPERIMENTS, SET, declared
from pcg.experiments.results import method
from pcg.experiments.unit import Unit, Utterance

UTTERANCES = tuple(Utterance(f"Sentence {i}.", "one") for i in range(250))


def units(quick: bool) -> dict[str, Unit]:
    grids = [declared(name, UTTERANCES, quick) for name in SET]
    return {unit.key("voice"): unit for grid in grids for unit in grid.units()}


def test_the_whole_set_fits_its_time_and_has_what_the_papers_tables_need() -> None:
    said = list(units(quick=False).values())
    assert len(said) <= 5500  # at 0.8 seconds a unit, 75 minutes
    counts = Counter(unit.condition.name for unit in said)
    main = ("AR", "SD", "SSD, beta 0.2", "SSD, beta 0.3", "PCG, theta 0.4", "PCG, theta 0.3", "PCG, theta 0.2")
    assert all(counts[name] >= 200 for name in main)
    assert len(units(quick=True)) <= 310  # three minutes of two cores
    assert len(said) < 0.9 * sum(len(declared(name, UTTERANCES, False).units()) for name in SET)
    conditions = {unit.condition for unit in said}
    assert {method(c) for c in conditions} == {
        "AR", "draft", "SD", "SSD", "PCG", "membership", "typical", "swap", "random swap",
    }  # fmt: skip
    assert {c.settings.beta for c in conditions if method(c) == "SSD"} >= {0.1, 0.2, 0.3, 0.4}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_grid_is_the_beginning_of_the_utterances_and_names_are_told_apart(name: str) -> None:
    for quick in (False, True):
        grid, count = declared(name, UTTERANCES, quick), EXPERIMENTS[name][2 + quick]
        assert grid.utterances == UTTERANCES[:count]
        assert len({c.name for c in grid.conditions}) == len(grid.conditions)
