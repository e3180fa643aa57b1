"""What the commands that do units of experiments share: where results lie, who does the units, and how far they are."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import add_judge, add_model, check_count
from pcg.errors import InputError

if TYPE_CHECKING:
    from pcg.experiments.results.tables import MeanSize
    from pcg.experiments.runner import Progress
    from pcg.experiments.unit import Record, Unit
    from pcg.experiments.worker import WorkerSpec
    from pcg.synthesis.synthesizer import Synthesizer

RESULTS = Path("runs") / "results"


def add_worker(parser: argparse.ArgumentParser) -> None:
    """Who does the units, and where their results are kept."""
    add_judge(parser)
    add_model(parser)
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help=f"where results are kept (default {RESULTS.as_posix()})"
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """How many of them work side by side."""
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--processes", type=int, default=1, help="workers side by side (default 1, for undisturbed times)")
    many.add_argument("--ray", type=int, metavar="N", help="N workers as Ray actors, here or on the cluster of RAY_ADDRESS")


def check_workers(options: argparse.Namespace) -> None:
    check_count("processes", options.processes)
    if options.ray is not None:
        check_count("ray", options.ray)


def worker_spec(options: argparse.Namespace) -> "WorkerSpec":
    from pcg.experiments.worker import WorkerSpec
    from pcg.recognition.judges import JUDGES

    if options.judge not in JUDGES:
        raise InputError("judge", options.judge, "one of " + ", ".join(JUDGES))
    return WorkerSpec(options.model, options.judge, options.device, draft=options.draft)


def do_units(units: "Sequence[Unit]", spec: "WorkerSpec", options: argparse.Namespace) -> "list[Record]":
    """Do those of `units` that the results lack, say on standard error how far that is, and return the records of all."""
    from pcg.experiments import ray_runner, runner
    from pcg.experiments.store import Store

    store = Store(options.results)
    todo, total = runner.missing(units, spec, store), count_units(units, spec)
    run = ray_runner.run if options.ray else runner.run
    records = run(todo, spec, store, options.ray or options.processes)
    try:
        with closing(runner.with_progress(records, total, total - len(todo))) as steps:
            _watch(progress for _, progress in steps)
    except KeyboardInterrupt:
        stored = total - len(runner.missing(units, spec, store))
        print(f"{stored} of {total} units are stored; the same command goes on from there.", file=sys.stderr)
        raise
    return store.records(units, spec.voice_id)


def count_units(units: "Sequence[Unit]", spec: "WorkerSpec") -> int:
    """How many they are, where those of several grids that mean the same work are one."""
    return len({unit.key(spec.voice_id) for unit in units})


def mean_sizes(synthesizer: "Synthesizer") -> "MeanSize":
    """The mean group size over the voice's tokens, by similarity and theta."""
    return lambda similarity, theta: synthesizer.library.neighbours(similarity).mean_size_at(theta)


def _watch(steps: "Iterable[Progress]") -> None:
    """Rewrite one line of standard error at each step, and end it, whatever ends the steps."""
    begun = False
    try:
        for progress in steps:
            begun = True
            print(f"\r{_line(progress)}\x1b[K", end="", file=sys.stderr, flush=True)
    finally:
        if begun:
            print(file=sys.stderr)


def _line(progress: "Progress") -> str:
    said = f"{progress.done} of {progress.total} units"
    if progress.seconds_left is None:
        return said
    return f"{said}, {timedelta(seconds=round(progress.seconds_left))} left"
