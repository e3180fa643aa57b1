"""pcg experiment: the papers' tables and figures, or a grid of one's own, on a model of one's own; and the recogniser's."""

import argparse
import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import (
    add_worker,
    add_workers,
    check_count,
    check_workers,
    count_units,
    do_units,
    load_synthesizer,
    mean_sizes,
    worker_spec,
)
from pcg.cli.report import in_checkout
from pcg.errors import InputError
from pcg.settings import Settings

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.experiments.grid import Grid
    from pcg.experiments.unit import Record, Unit, Utterance
    from pcg.experiments.worker import WorkerSpec
    from pcg.synthesis.synthesizer import Synthesizer

ALL = "all"
NAMES = f"of an experiment, a grid in FILE.yaml, or {ALL} (the default): each but originals and paper"
GRID_FILES = (".yaml", ".yml")
RECOGNITION = Path("runs") / "recognition"


def add(commands: "Commands") -> None:
    parser = commands.add_parser("experiment", help="the papers' tables and figures on your model, or a grid of your own")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    run = actions.add_parser("run", help="do what the results lack, then print the tables; goes on where it was stopped")
    _add_grids(run)
    add_workers(run)
    run.set_defaults(command=run_grids)

    status = actions.add_parser("status", help="how much of each experiment is done")
    _add_grids(status)
    status.set_defaults(command=show_status)

    drafts = actions.add_parser("drafts", help="the rules of the main experiment, with one draft after another")
    drafts.add_argument("drafts", nargs="+", metavar="DRAFT", help="as for --draft")
    drafts.add_argument("--only", nargs="+", metavar="METHOD", help='these rules alone, named as in "PCG, theta 0.3"')
    _add_choices(drafts)
    add_workers(drafts)
    drafts.set_defaults(command=compare_drafts, name=["main"])

    _add_recognition(actions)

    listing = actions.add_parser("list", help="the experiments that there are")
    listing.set_defaults(command=list_grids)


def run_grids(options: argparse.Namespace) -> None:
    from pcg.experiments.results.analysis import Results, summarise
    from pcg.experiments.results.tables import tables

    check_workers(options)
    spec, load = worker_spec(options), _loader(options)
    units = _in_turns([unit for grid in _grids(options, load) for unit in grid.units()])
    records = _with_spoof(do_units(units, spec, options), spec, options, load)
    results = Results(records)
    sizes = mean_sizes(load()) if any(record.unit.condition.swap for record in records) else None
    for table in tables(results, summarise(results), sizes):
        print(table.markdown(), end="\n\n")
    if in_checkout():
        print(f"All of it on one page: python -m pcg report {options.results}", file=sys.stderr)


def compare_drafts(options: argparse.Namespace) -> None:
    """Prints two tables, and leaves them beside the results, where `pcg report --markdown` finds them."""
    from pcg.experiments.results.analysis import Results
    from pcg.experiments.results.document import DRAFTS
    from pcg.experiments.results.tables.drafts import draft_table, pair_table
    from pcg.files import renew_checksums, write_json
    from pcg.synthesis.voice import NONE

    check_workers(options)
    if NONE in options.drafts:
        raise InputError("draft", NONE, "one that drafts")
    by_draft = {}
    for draft in dict.fromkeys(options.drafts):
        options.draft = draft
        (grid,) = _grids(options, _loader(options))
        grid = _only(grid, options.only)
        print(f"draft {draft}", file=sys.stderr)
        by_draft[draft] = Results(do_units(grid.units(), worker_spec(options), options))
    tables = draft_table(by_draft), pair_table(by_draft)
    write_json(options.results / DRAFTS, {"tables": [table.as_dict() for table in tables], "summaries": []})
    renew_checksums(options.results / DRAFTS)
    print("\n\n".join(table.markdown() for table in tables))


def _only(grid: "Grid", names: "Sequence[str] | None") -> "Grid":
    """The grid with AR and the conditions of these names; None: with all of them."""
    if names is None:
        return grid
    known = [condition.name for condition in grid.conditions]
    for name in names:
        if name not in known:
            raise InputError("only", name, "one of " + "; ".join(known))
    return replace(grid, conditions=tuple(c for c in grid.conditions if c.name in names or c.settings.method == "ar"))


def _with_spoof(
    records: "list[Record]", spec: "WorkerSpec", options: argparse.Namespace, load: "Callable[[], Synthesizer]"
) -> "list[Record]":
    """The records, those of before there were these detectors judged now, by the tokens that are in them."""
    from pcg.experiments.spoofing import judged
    from pcg.experiments.store import Store
    from pcg.spoof.detectors import SHIPPED

    if not SHIPPED.is_dir():
        return records
    detectors = load().decoder.detectors
    return judged(records, spec.voice_id, Store(options.results), detectors) if detectors else records


def show_status(options: argparse.Namespace) -> None:
    from pcg.experiments.runner import missing
    from pcg.experiments.store import Store

    spec, store = worker_spec(options), Store(options.results)
    for grid in _grids(options, _loader(options)):
        units = grid.units()
        total = count_units(units, spec)
        print(f"{grid.name}: {total - len(missing(units, spec, store))} of {total} units are done")


def list_grids(options: argparse.Namespace) -> None:
    from pcg.experiments.suites import APART, COUNTS, TITLES

    for name, title in TITLES.items():
        full, quick = COUNTS[name]
        print(f"{name:10} {title}; {full} utterances, {quick} with --quick" + (f"; not in {ALL}" if name in APART else ""))


def run_recognition(options: argparse.Namespace) -> None:
    from pcg.asr.embedded import EMBEDDED, load_recogniser
    from pcg.experiments.recognition.speech import HEARD, NOISY, recorded_set, spoken_sets
    from pcg.experiments.recognition.study import study
    from pcg.experiments.recognition.tables import recognition_tables
    from pcg.experiments.store import Store
    from pcg.files import write_json
    from pcg.models.hub import content_digest

    check_count("count", options.count)
    if Store(options.results).exists:
        raise InputError("results", str(options.results), "a folder without results of another kind")
    folder = options.recogniser or EMBEDDED
    recogniser = load_recogniser(folder)
    sets = spoken_sets(options.count, seed=0)
    if options.speech:
        sets[options.speech.resolve().name] = recorded_set(options.speech, options.count)
    # Noise is to the recogniser what Earnings-22 is to the paper's: the set on which thresholds matter.
    swept = NOISY if HEARD in sets else next(iter(sets))
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.safetensors")):
        digest.update(content_digest(file).encode())
    for name, spoken in sets.items():
        digest.update(name.encode())
        for each in spoken:
            digest.update(each.text.encode() + each.samples.tobytes())
    found = study(recogniser, sets, swept, options.results / "study.json", digest.hexdigest()[:16])
    tables = recognition_tables(found)
    for table in tables:
        print(table.markdown(), end="\n\n")
    write_json(options.results / "results.json", {"tables": [t.as_dict() for t in tables], "summaries": []})


def _add_grids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", default=[ALL], help=NAMES)
    _add_choices(parser)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="few utterances and few settings: to try, not to believe")
    parser.add_argument("--libritts", type=Path, metavar="FOLDER", help="say sentences of LibriTTS, in its speakers' voices")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="say everything with each (default 0)")
    parser.add_argument("--temperature", type=float, help=f"where an experiment has the usual one ({Settings().temperature:g})")
    parser.add_argument("--count", type=int, metavar="N", help="of an experiment's utterances, this many")
    add_worker(parser)


def _add_recognition(commands: "Commands") -> None:
    parser = commands.add_parser("recognition", help="self-speculative recognition: Table 1 and Figures 3 and 4 of its paper")
    parser.add_argument("--count", type=int, default=100, help="utterances of each test set (default 100)")
    parser.add_argument("--speech", type=Path, metavar="FOLDER", help="one more set: your WAV or FLAC files, a TXT each")
    parser.add_argument("--recogniser", type=Path, metavar="FOLDER", help="another recogniser than the shipped")
    parser.add_argument("--results", type=Path, default=RECOGNITION, help=f"where it is kept (default {RECOGNITION})")
    parser.set_defaults(command=run_recognition)


def _loader(options: argparse.Namespace) -> "Callable[[], Synthesizer]":
    """Loads the synthesizer when it is first asked for: a grid from a file may not need it."""
    return lru_cache(maxsize=1)(partial(load_synthesizer, options))


def _grids(options: argparse.Namespace, load: "Callable[[], Synthesizer]") -> "list[Grid]":
    """The grids that were named, each once."""
    from pcg.analysis.swap import same_size_theta
    from pcg.experiments.grid import read_grid
    from pcg.experiments.suites import SET, TITLES, declared

    names = list(dict.fromkeys(each for name in options.name for each in (SET if name == ALL else (name,))))
    files = {name: Path(name) for name in names if Path(name).suffix in GRID_FILES}
    for name in names:
        if name not in TITLES and name not in files:
            raise InputError("experiment", name, f"{ALL}, one of {', '.join(TITLES)}, or a file that ends in .yaml")
    grids = {name: read_grid(path) for name, path in files.items()}
    if len(files) < len(names):
        utterances = _utterances(options, load)

        def theta_for(similarity: str, theta: float) -> float:
            return same_size_theta(load().library, theta, similarity)

        grids |= {name: declared(name, utterances, options.quick, theta_for) for name in names if name in TITLES}
    alone = not any(grid.hears_the_draft for grid in grids.values()) or load().voice.draft_speaks_alone
    over = (options.seeds, options.temperature, options.count)
    return [grids[name].over(*over).for_draft(options.draft, alone) for name in names]


def _utterances(options: argparse.Namespace, load: "Callable[[], Synthesizer]") -> "Sequence[Utterance]":
    """As many as the largest experiment says; the others take theirs from among them."""
    from pcg.experiments.suites import COUNTS, SET
    from pcg.experiments.testset import libritts_utterances, offline_utterances

    if options.libritts:
        names = [each for name in options.name for each in (SET if name == ALL else (name,))]
        most = max(COUNTS[name][options.quick] for name in names if name in COUNTS)
        return libritts_utterances(options.libritts, min(most, options.count or most))
    return offline_utterances(max(COUNTS[name][0] for name in SET), list(load().voice.references))


def _in_turns(units: "Sequence[Unit]") -> "list[Unit]":
    """Those of an utterance and a seed side by side, whatever grid they are of: times are compared between them."""
    together: dict[tuple[Utterance, int], list[Unit]] = {}
    for unit in units:
        together.setdefault((unit.utterance, unit.seed), []).append(unit)
    return [unit for of_one in together.values() for unit in of_one]
