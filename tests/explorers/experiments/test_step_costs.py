"""What single steps cost is kept beside the results, and never read wrong."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from explorers.experiments.archive import Archive
from pcg.experiments.results.kept_costs import COSTS, MACHINE
from pcg.experiments.store import Store
from pcg.experiments.suites import ar, sd
from pcg.synthesis.costs import StepCosts
from pcg.synthesis.synthesizer import Synthesizer
from tests.damage import DAMAGES, FULL_DISKS, flip, removed, without_privileges
from tests.experiments.synthetic import record
from tests.explorers.experiments.quick import DRAFTING, VOICE, QuickSpec

HERE = dict.fromkeys(MACHINE, "this") | {"voice": VOICE}
TIMED = StepCosts(2.125, 0.375, 2.25)


@pytest.fixture
def archive(synthesizer: Synthesizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Results of this machine, whose steps were timed."""
    monkeypatch.setattr("explorers.experiments.archive.context", lambda *_: HERE)
    monkeypatch.setattr(Archive, "_timed", lambda *_: TIMED)
    folder = tmp_path / "results"
    for condition in (ar(), sd()):
        done = record(condition, 0, context=HERE, **(DRAFTING if condition == sd() else {}))
        Store(folder).add(done.unit.key(VOICE), done)
    archive = Archive(synthesizer, QuickSpec(), folder)
    archive.time_steps()
    return archive


def costs(archive: Archive, folder: Path) -> tuple[Mapping[int, StepCosts] | None, list[str]]:
    """As another start of the page reads them, and the warnings."""
    with warnings.catch_warnings(record=True) as told, without_privileges():
        warnings.simplefilter("always")
        found = Archive(archive._synthesizer, QuickSpec(), folder).result_set().costs
    return found, [str(each.message) for each in told]


def test_what_was_timed_is_read_again(archive: Archive, tmp_path: Path) -> None:
    assert costs(archive, tmp_path / "results") == ({3: TIMED}, [])


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_costs_are_told_of_and_timed_again(damage: Callable[[Path], None], archive: Archive, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    damage(folder / COSTS)
    found, told = costs(archive, folder)
    assert found is None
    assert [sentence for sentence in told if "\n" in sentence] == []
    assert told or damage.__name__ == "a_link_to_nowhere"
    removed(folder / COSTS)
    archive.time_steps()
    assert costs(archive, folder) == ({3: TIMED}, [])


def test_no_flipped_byte_changes_a_cost(archive: Archive, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    whole = (folder / COSTS).read_bytes()
    for seed in range(200):
        (folder / COSTS).write_bytes(whole)
        flip(folder / COSTS, count=1, seed=seed)
        assert costs(archive, folder)[0] in (None, {3: TIMED})


@pytest.mark.parametrize("full", FULL_DISKS, ids=lambda full: full.__name__)
def test_where_costs_find_no_room_the_results_are_shown_without_them(full: Callable, archive: Archive, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    (folder / COSTS).unlink()
    with full(), pytest.warns(UserWarning, match="cannot be written .*: the work goes on without it"):
        archive.time_steps()
    assert [path.name for path in folder.iterdir()] == ["results.sqlite"]
    assert costs(archive, folder) == (None, [])
