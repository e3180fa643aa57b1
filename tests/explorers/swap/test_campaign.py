from pathlib import Path

import pytest

from explorers.swap import actions, figures
from explorers.swap.actions import Campaign, campaign, swap_grid
from pcg.experiments.grid import Grid
from pcg.experiments.runner import Progress
from pcg.experiments.store import Store
from pcg.experiments.suites import ar, swapped
from pcg.experiments.unit import Utterance
from pcg.experiments.worker import WorkerSpec
from pcg.synthesis.synthesizer import Synthesizer

THETA = 0.3


def test_the_small_grid_has_a_control_for_every_swap(synthesizer: Synthesizer) -> None:
    grid = swap_grid(synthesizer, "cosine")
    swaps = [c.swap for c in grid.conditions if c.swap]
    assert [s.theta for s in swaps if s.replacement == "group"] == list(actions.THETAS)
    assert [s.theta for s in swaps if s.replacement == "random"] == list(actions.THETAS)
    assert {u.voice for u in grid.utterances} == set(synthesizer.voice.references)
    assert [s.theta for c in swap_grid(synthesizer, "fsq").conditions if (s := c.swap) and s.similarity == "fsq"]


def test_one_unit_has_no_plural() -> None:
    assert "0 of 1 unit " in figures.progress_html(Campaign(Progress(0, 1, None)))
    assert "All done: 1 unit." in figures.progress_html(Campaign(Progress(1, 1, 0.0)))


@pytest.mark.slow
def test_many_utterances_make_the_papers_table_once(synthesizer: Synthesizer, tiny_voice_folder: Path, tmp_path: Path) -> None:
    said = (Utterance("hello", "one"), Utterance("yes", "two"))
    grid = Grid("few", "few", (ar(), swapped(THETA), swapped(THETA, replacement="random")), said, (0,))
    spec, store = WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path), Store(tmp_path)
    steps = list(campaign(synthesizer, grid, spec, store))
    assert [s.progress.done for s in steps] == list(range(7))
    assert steps[0].table is None
    assert steps[3].table is steps[5].table is not steps[6].table
    page = figures.campaign_html(steps[-1])
    assert steps[-1].judges["WER, CER"].split(",")[0] in page
    assert "All done: 6 units." in figures.progress_html(steps[-1])
    assert [cells[4] for cells in steps[-1].table.shown()][:2] == ["2", "2"]
    (again,) = campaign(synthesizer, grid, spec, store)
    assert figures.campaign_html(again) == page
