"""Commands of experiments: experiment, swap, report, replay, listeners."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from pcg.cli.options import BOTH_JUDGES, JUDGES, MODEL, load_synthesizer, numbers, read_thetas, with_options
from pcg.errors import InputError, PCGError, counted

if TYPE_CHECKING:
    from pcg.experiments.unit import Record, Unit
    from pcg.experiments.worker import WorkerSpec
    from pcg.synthesis.synthesizer import Synthesizer

ALL, PAGE = "all", "report.html"
GRID_FILES = (".yaml", ".yml")
JUDGING = {
    "judge": (str, BOTH_JUDGES, f"who writes down the words: {JUDGES}; several with commas between, the first is the main one")
}
FOLDER = {"results": (Path, Path("runs/results"), "where results are kept")}
WORKERS = {
    "processes": (int, 1, "workers side by side; speeds come from takes of one alone", 1),
    "ray": (int, None, "N workers as Ray actors in place of processes, here or on the cluster of RAY_ADDRESS", 1),
}
CHOICES = {
    "quick": (bool, False, "few utterances: to try, not to believe"),
    "libritts": (Path, None, "say sentences of this folder of LibriTTS, in its speakers' voices"),
    "seeds": (str, "", "say everything with each of these seeds, with commas between [default: 0]"),
    "count": (int, None, "so many of an experiment's utterances"),
}
NAMES = Annotated[list[str], typer.Argument(help=f"experiments, grids in FILE.yaml, or {ALL}: each but paper")]


def add(app: typer.Typer) -> None:
    experiment = typer.Typer(help="The papers' tables on your model, or a grid of your own.", rich_markup_mode=None)
    for name, command in {"run": run_grids, "traces": record_traces, "list": list_grids}.items():
        experiment.command(name)(command)
    app.add_typer(experiment, name="experiment")
    for command in (swap, report, replay, listeners):
        app.command()(command)


@with_options(CHOICES, JUDGING, MODEL, FOLDER, WORKERS)
def run_grids(options: SimpleNamespace, name: NAMES = [ALL]) -> None:  # noqa: B006
    """Do what the results lack, then print the tables; continue where it was stopped."""
    from pcg.experiments.grids import EXPERIMENTS, SET, declared, in_turns, libritts_utterances, offline_utterances, read_grid

    spec, seeds = _worker_spec(options), numbers("seeds", options.seeds, int) if options.seeds else []
    names = list(dict.fromkeys(each for one in name for each in (SET if one == ALL else (one,))))
    for each in names:
        if each not in EXPERIMENTS and Path(each).suffix not in GRID_FILES:
            raise InputError("experiment", each, f"{ALL}, one of {', '.join(EXPERIMENTS)}, or a file that ends in .yaml")
    asked = {each: read_grid(Path(each)) for each in names if each not in EXPERIMENTS}

    @lru_cache(maxsize=1)
    def load() -> "Synthesizer":
        """Load the voice once, if at all: a grid from a file may not need it."""
        return load_synthesizer(options)

    if known := [each for each in names if each in EXPERIMENTS]:
        if options.libritts:
            most = max(EXPERIMENTS[each].quick if options.quick else EXPERIMENTS[each].full for each in known)
            utterances = libritts_utterances(options.libritts, min(most, options.count or most))
        else:
            utterances = offline_utterances(max(EXPERIMENTS[each].full for each in SET), list(load().voice.references))
        asked |= {each: declared(each, utterances, options.quick) for each in known}
    drafts_alone = any(c.model == "draft" for grid in asked.values() for c in grid.conditions)
    alone = not drafts_alone or load().voice.draft_speaks_alone
    _measure(in_turns(asked[each].over(seeds, options.count).for_draft(options.draft, alone) for each in names), spec, options)
    if find_spec("explorers"):  # which draw reports, and are not installed with the library
        print(f"All of it on one page: python -m pcg report {options.results}", file=sys.stderr)


def list_grids() -> None:
    """List the experiments."""
    from pcg.experiments.grids import EXPERIMENTS, SET

    for name, (title, _, full, few) in EXPERIMENTS.items():
        print(f"{name:12}{title}; {full} utterances, {few} with --quick" + ("" if name in SET else f"; not in {ALL}"))


@with_options(JUDGING, MODEL, FOLDER, WORKERS)
def swap(
    options: SimpleNamespace,
    theta: Annotated[str, typer.Option(help="of the groups, with commas between")] = "0.6,0.5,0.4,0.3",
    sentences: Annotated[int, typer.Option(help="how many are said; voices take turns", min=1)] = 40,
) -> None:
    """Put members of a group in each other's place, and any codes as a control, and measure the cost (PCG Table 2)."""
    from pcg.experiments.grids import Grid, ar, offline_utterances, swapped
    from pcg.groups.swap import REPLACEMENTS

    conditions = [ar(), *(swapped(each, replacement) for each in read_thetas(theta) for replacement in REPLACEMENTS)]
    spec, voice = _worker_spec(options), load_synthesizer(options).voice
    utterances = offline_utterances(sentences, list(voice.references))
    _measure(Grid("swap", tuple(conditions), tuple(utterances), (0,)).units(), spec, options, ("swap",))


@with_options({"model": (str, None, "report this one, with sounds")}, JUDGING,
              {name: MODEL[name] for name in ("draft", "device", "precision")})  # fmt: skip
def report(
    options: SimpleNamespace,
    results: Annotated[Path, typer.Argument(help="the folder that experiment run or swap has filled")],
    out: Annotated[Path | None, typer.Option(help=f"FILE.html [default: {PAGE} in that folder]")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write the tables into this document, at its marks")] = None,
    pack: Annotated[bool, typer.Option("--pack", help="write all results into one small file, to publish")] = False,
) -> None:
    """Write the results of experiments as one page, or their tables into a document."""
    from pcg.experiments.store import Store

    if not (pack or markdown or find_spec("explorers")):
        raise PCGError("Reports are written in a checkout of the project: git clone URL, then run python -m pcg report in it.")
    store = Store(results)
    if not store.exists:
        raise InputError("results", str(results), "a folder that experiment run or swap has filled")
    records = store.all()
    if pack:
        print(f"{store.pack()}: {counted(len(records), 'unit')}")
        return
    spec = _worker_spec(options) if options.model else None
    voices = {str(record.context["voice"]): str(record.context["model"]) for record in records}
    if spec is None and len(voices) > 1:
        names = ", ".join(sorted(set(voices.values())))
        allowed = f"given, with judge and device: there are results of several voices or judges ({names})"
        raise InputError("model", None, allowed)
    if spec and spec.voice_id not in voices:
        raise InputError("model", options.model, f"one that has results with the judge {options.judge} there")
    if markdown:
        _fill_document(records, results.resolve(), markdown)
        return
    # Only the command line, a composition root as app.py is, imports the explorers.
    from explorers.results.report import write_report

    out, sound = out or results / PAGE, None
    if spec:
        # Units are said again for their sounds; the judge of the results need not be here.
        worker = replace(spec, judge=type(spec).judge, dnsmos=False).load()
        sound = lambda unit: worker.sound(unit)[:2]  # noqa: E731
    content = write_report(results, out, sound, spec and spec.voice_id)
    made = (content["records"], "unit"), (len(content["tables"]), "table"), (len(content["figures"]), "figure")
    print(f"{out}: {', '.join(counted(*each) for each in made)}")


@with_options(MODEL)
def record_traces(
    options: SimpleNamespace,
    grid: Annotated[Path, typer.Argument(help="FILE.yaml; what drafts in it is spoken, SD among it")],
    out: Annotated[Path, typer.Option(help="the folder that the traces go to")] = Path("runs/traces"),
) -> None:
    """Write every test of every round of a grid as Parquet, for pcg replay."""
    from pcg.experiments.grids import read_grid
    from pcg.experiments.traces import write_traces

    synthesizer, units = load_synthesizer(options), read_grid(grid).units()
    print(f"{out}: {counted(write_traces(out, synthesizer, units), 'test')}")


def replay(
    rule: Annotated[list[str], typer.Argument(help="rules as experiments name them: sd, ssd:0.3, pcg:0.4, membership:50 ...")],
    traces: Annotated[Path | None, typer.Option(help="a folder of experiment traces [default: the shipped one]")] = None,
    by: Annotated[str, typer.Option(help="also acceptance by quarters of 'entropy' or 'group size', or by 'sound'")] = "",
) -> None:
    """Judge recorded rounds again by other rules, without a model: estimates, as a rule changes what comes after it."""
    from pcg.experiments.traces import PARTS, SHIPPED, Traces
    from pcg.rules import named_rule
    from pcg.synthesis.voice import EMBEDDED, load_codec

    if by and by not in PARTS:
        raise InputError("by", by, "one of " + ", ".join(PARTS))
    recorded = Traces.read(traces or SHIPPED)
    neighbours = lru_cache(maxsize=1)(recorded.neighbours)
    rows = {name: recorded.replay(named_rule(name, neighbours)) for name in rule}
    print("| rule | rounds | tokens a call | accepted of drafted | of tested | by position |\n|---|---|---|---|---|---|")
    for name, row in (rows | {f"{method}, as it ran": recorded.recorded(method) for method in recorded.methods}).items():
        at = " ".join(f"{100 * a / max(1, t):.0f}" for a, t in zip(row.accepted_at, row.tested_at, strict=True))
        rates = f"{100 * row.acceptance_rate:.1f} % | {100 * row.acceptance_of_tested:.1f} %"
        print(f"| {name} | {row.rounds} | {row.acceptance_length:.2f} | {rates} | {at} |")
    codec = load_codec(EMBEDDED / "codec") if by == "sound" else None
    for name, row in rows.items() if by else ():
        parts = (f"{part}: {100 * share:.0f} % of {count:,}" for part, count, share in row.by(by, codec))
        print(f"{name}, accepted of tested by {by}: {', '.join(parts)}")


def listeners(file: Annotated[list[Path], typer.Argument(help="records that the page exported as JSON")]) -> None:
    """Print preferences and mean scores of listening tests with intervals over listeners; JSON last."""
    from pcg.experiments.listening_tests import pool, read_listener

    pooled = pool([read_listener(each) for each in file])
    for each in pooled:
        left_out = f", {counted(each.left_out, 'listener')} left out who missed the reference" if each.left_out else ""
        print(f"{each.kind}: {counted(each.listeners, 'listener')}, {counted(each.trials, 'trial')}{left_out}")
        for name, share in each.shares.items():
            print(f"  {name}: {share.value:.2f} [{share.low:.2f}, {share.high:.2f}]")
        for title, figure in {"sign test, p": each.p, "agreement (Krippendorff's alpha)": each.agreement}.items():
            if figure is not None:
                print(f"  {title}: {figure:.3g}")
    print(json.dumps([asdict(each) for each in pooled]))


def _fill_document(records: "Sequence[Record]", folder: Path, document: Path) -> None:
    """Write the tables of the units in `folder` into a document, at its marks."""
    from pcg.experiments.results import Results
    from pcg.experiments.tables import fill, tables
    from pcg.files import replacing
    from pcg.places import PROJECT

    if not document.is_file():
        raise InputError("markdown", str(document), "a document with marks: <!-- table NAME of FOLDER -->")
    name = folder.relative_to(PROJECT).as_posix() if folder.is_relative_to(PROJECT) else folder.as_posix()
    filled = fill(document.read_text(encoding="utf-8"), name, tables(Results(records)))
    with replacing(document) as temporary:
        temporary.write_text(filled, encoding="utf-8")
    print(f"{document}: the tables of {name}")


def _worker_spec(options: SimpleNamespace) -> "WorkerSpec":
    from pcg.experiments.worker import WorkerSpec

    if getattr(options, "ray", None) is not None and options.processes > 1:
        raise InputError("ray", options.ray, "left out with --processes")
    return WorkerSpec(options.model, options.judge, options.device, draft=options.draft, precision=options.precision)


def _measure(units: "Sequence[Unit]", spec: "WorkerSpec", options: SimpleNamespace, names: Sequence[str] = ()) -> None:
    """Do the units that the results lack, with progress on standard error, and print the tables of all; names: only these."""
    from pcg.experiments import runner
    from pcg.experiments.results import Results
    from pcg.experiments.store import Store
    from pcg.experiments.tables import tables

    store = Store(options.results)
    todo, total = runner.missing(units, spec, store), len({unit.key(spec.voice_id) for unit in units})
    records = runner.run(todo, spec, store, options.ray or options.processes, ray=bool(options.ray))
    shape = "{n_fmt} of {total_fmt} units, {remaining} left"
    try:
        with closing(records):
            for _ in tqdm(records, total=total, initial=total - len(todo), bar_format=shape, disable=not todo):
                pass
    except KeyboardInterrupt:
        stored = total - len(runner.missing(units, spec, store))
        print(f"{stored} of {total} units are stored; the same command continues from there.", file=sys.stderr)
        raise
    for table in tables(Results(store.records(units, spec.voice_id))):
        if table.name in (names or (table.name,)):
            print(table.markdown(), end="\n\n")
