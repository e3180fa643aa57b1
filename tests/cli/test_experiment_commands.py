"""swap and experiment: what they do again, what they print, and one sentence for bad input."""

from itertools import pairwise

import pytest

from pcg.cli import main
from pcg.experiments.unit import Unit
from pcg.experiments.worker import WorkerSpec
from tests.cli.conftest import GRID, Parrot

MORE = GRID.replace("sd}]", "sd}, {name: PCG, method: pcg, theta: 0.4}]")


def test_swap_prints_table_2_of_the_model_with_its_control(where, calls, capsys):
    assert main(["swap", "--sentences", "2", "--theta", "0.5,0.6", *where]) == 0
    assert len(calls) == 2 * (1 + 2 * 2)
    said = capsys.readouterr()
    assert "10 of 10 units" in said.err
    rows = [line.split(" | ")[:2] for line in said.out.splitlines() if line.startswith("| ") and "---" not in line]
    kinds = [[name, theta] for theta in ("0.600", "0.500") for name in ("| cosine group", "| any code (control)")]
    assert sorted(rows[1:]) == sorted(kinds)


def test_a_rerun_does_only_what_is_missing(where, grid, calls, capsys):
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert len(calls) == 6
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert len(calls) == 6
    first, second = (part for part in capsys.readouterr().out.split("**Every setting**")[1:])
    assert first.splitlines()[:6] == second.splitlines()[:6]
    grid.write_text(MORE)
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert [unit.condition.name for unit in calls[6:]] == ["PCG"] * 3


def test_an_interrupt_loses_nothing(where, grid, monkeypatch, capsys):
    calls: list[Unit] = []
    monkeypatch.setattr(WorkerSpec, "load", lambda spec: Parrot(spec, calls, interrupt_at=4))
    assert main(["experiment", "run", str(grid), *where]) == 130
    said = capsys.readouterr().err
    assert "4 of 6 units are stored" in said
    assert "Traceback" not in said
    monkeypatch.setattr(WorkerSpec, "load", lambda spec: Parrot(spec, calls))
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert len(calls) == 6
    assert "6 of 6 units" in capsys.readouterr().err


def test_the_papers_tables_come_from_one_command(where, calls, capsys):
    assert main(["experiment", "run", "main", "swap", "--quick", *where]) == 0
    printed = capsys.readouterr().out
    for said in ("PCG Table 1", "13.8 ± 0.4", "PCG Table 2", "The papers' claims", "cosine group"):
        assert said in printed
    # AR of the swap is that of the main table where they share an utterance, so it is not said twice.
    assert len(calls) == len({unit.key("") for unit in calls})
    # All conditions of an utterance stand side by side.
    texts = [unit.utterance.text for unit in calls]
    assert sum(a != b for a, b in pairwise(texts)) == len(set(texts)) - 1


def test_experiments_are_listed(capsys):
    assert main(["experiment", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["main", "tradeoff", "swap", "paper"]


@pytest.mark.parametrize(
    ("options", "wanted"), [([], (1, False)), (["--processes", "2"], (2, False)), (["--ray", "3"], (3, True))]
)
def test_as_many_workers_are_started_as_were_asked_for(where, grid, monkeypatch, options, wanted):
    asked = []

    def run(units, spec, store, processes, ray):
        asked.append((processes, ray))
        yield from ()

    monkeypatch.setattr("pcg.experiments.runner.run", run)
    assert main(["experiment", "run", str(grid), *options, *where]) == 0
    assert asked == [wanted]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["swap", "--theta", "3"], "theta"),
        (["swap", "--sentences", "100000"], "count"),
        (["swap", "--processes", "0"], "processes"),
        (["swap", "--device", "tpu"], "device"),
        (["swap", "--model", "nowhere"], "model"),
        (["experiment", "run", "table7"], "experiment"),
        (["experiment", "run", "missing.yaml"], "grid"),
        (["experiment", "run", "--ray", "0"], "ray"),
        (["experiment", "run", "--judge", "nobody"], "judge"),
        (["experiment", "run", "--judge", "embedded,nobody"], "judge"),
        (["experiment", "run", "main", "--libritts", "missing"], "folder"),
        (["experiment", "dance"], "dance"),
        (["experiment", "run", "--processes", "2", "--ray", "2"], "ray"),
    ],
)
def test_bad_input_is_one_sentence_and_no_unit_is_done(where, calls, capsys, arguments, named):
    given = [
        *arguments,
        *([] if "dance" in arguments else where[2:]),
        *([] if {"--model", "dance"} & {*arguments} else where[:2]),
    ]
    assert main(given) == 2
    captured = capsys.readouterr()
    assert named in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not calls
