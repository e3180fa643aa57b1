"""What the page does with experiments, without the page: its runs, and how they sound."""

from dataclasses import replace
from pathlib import Path

import pytest

from explorers.experiments.actions import HEARD, hear, pairs, study
from explorers.experiments.archive import Archive
from explorers.experiments.grids import units_of
from pcg.errors import InputError, PCGError
from pcg.experiments.grids import Grid, ar, pcg, sd, ssd
from pcg.experiments.unit import Utterance
from pcg.experiments.worker import WorkerSpec
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.experiments.quick import Echo, archive_of, keep, small_grid

# Runs.


def test_units_of_an_utterance_stand_side_by_side_over_all_grids() -> None:
    one, other = small_grid(), replace(small_grid(), conditions=(ssd(0.3), sd()))
    units = units_of([one, other])
    texts = [unit.utterance.text for unit in units]
    assert len(units) == 20
    assert texts == sorted(texts)


def test_a_run_tells_every_unit_and_does_what_is_missing_only(synthesizer: Synthesizer, tmp_path: Path) -> None:
    archive, units = archive_of(synthesizer, tmp_path), units_of([small_grid()])
    keep(tmp_path, [ar()], utterances=4)
    assert archive.count(units) == (4, 12)
    steps = list(study(archive, units))
    assert [step.progress.done for step in steps] == [4, *range(5, 13), 12]
    assert [step.over for step in steps] == [False] * 9 + [True]
    assert steps[-1].findings.records == 12
    assert [step.progress.done for step in study(archive, units)] == [12, 12]


@pytest.mark.parametrize(("seconds", "drawn"), [(1, [1, 5, 9, 12]), (10, [*range(1, 13), 12]), (0.1, [1, 12])])
def test_partial_results_are_drawn_every_few_seconds_and_at_the_end(
    seconds: float, drawn: list[int], synthesizer: Synthesizer, tmp_path: Path
) -> None:
    now, shown = [0.0], [None]
    for step in study(archive_of(synthesizer, tmp_path), units_of([small_grid()]), lambda: now[0]):
        if step.findings is not shown[-1]:
            shown.append(step.findings)
        now[0] += seconds
    assert [findings.records for findings in shown[1:]] == drawn


def test_a_closed_run_stops_and_what_is_done_stays(synthesizer: Synthesizer, tmp_path: Path) -> None:
    archive, units = archive_of(synthesizer, tmp_path), units_of([small_grid()])
    steps = study(archive, units)
    for _ in range(4):
        next(steps)
    steps.close()
    assert archive.count(units) == (3, 12)
    assert next(study(archive, units)).progress.done == 3


def test_a_first_run_is_not_mixed_with_results_of_another_voice(synthesizer: Synthesizer, tmp_path: Path) -> None:
    keep(tmp_path / "committed", [ar(), sd()], voice="another voice")
    archive = archive_of(synthesizer, tmp_path / "own", tmp_path / "committed")
    counts = [step.findings.records if step.findings else 0 for step in study(archive, units_of([small_grid()]))]
    assert (counts[0], counts[1], counts[-1]) == (0, 1, 12)


@pytest.mark.slow
def test_a_run_on_a_real_voice_has_its_bound_and_is_heard_token_for_token(
    synthesizer: Synthesizer, tiny_voice_folder: Path, tmp_path: Path
) -> None:
    spec = WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path / "cache")
    archive = Archive(synthesizer, spec, tmp_path)
    grid = Grid("few", "few", (ar(), pcg(0.4)), (Utterance("hello", "one"), Utterance("yes", "two")), (0,))
    *_, last = study(archive, units_of([grid]))
    (coarse,) = [summary for summary in last.findings.summaries if summary.name == pcg(0.4).name]
    assert coarse.bound > 0
    # Another archive finds the costs that this one measured.
    assert Archive(synthesizer, spec, tmp_path).result_set().costs == archive.result_set().costs != {}
    found = list(hear(spec.load(), pairs(archive.result_set(), pcg(0.4).name)))
    assert [pair.chosen.same for pair in found] == [True, True]
    assert all(pair.alone.record.unit.utterance == pair.chosen.record.unit.utterance for pair in found)
    assert all(len(pair.chosen.samples) > 0 for pair in found)


# Hearing.


def test_a_condition_is_heard_beside_ar_over_the_same_utterances(full: Archive) -> None:
    speaker = Echo(garbled="Sentence 2.")
    found = list(hear(speaker, pairs(full.result_set(), pcg(0.4).name)))
    assert [pair.chosen.record.unit.utterance.text for pair in found] == ["Sentence 0.", "Sentence 2.", "Sentence 4."]
    assert [pair.alone.record.unit.condition.name for pair in found] == ["AR"] * HEARD
    assert [pair.chosen.same for pair in found] == [True, False, True]
    assert [unit.condition.name for unit in speaker.said[:2]] == [pcg(0.4).name, "AR"]


def test_other_utterances_come_next_and_ar_has_nothing_beside_it(full: Archive) -> None:
    result_set = full.result_set()
    texts = {r.unit.utterance.text for first in (0, 1) for r, _ in pairs(result_set, sd().name, first)}
    assert len(texts) == 6
    assert all(alone is None for _, alone in pairs(result_set, "AR"))
    assert len(pairs(result_set, "AR", 123_456, count=99)) == 6


def test_what_was_not_measured_cannot_be_heard(full: Archive, synthesizer: Synthesizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one that was measured"):
        pairs(full.result_set(), "PCG, theta 0.123")
    with pytest.raises(PCGError, match="There are no runs on this server yet"):
        pairs(archive_of(synthesizer, tmp_path / "none").result_set(), "AR")
