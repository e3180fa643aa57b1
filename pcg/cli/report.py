"""pcg report: everything that the results of experiments say, on one page, or its tables inside a markdown document."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import (
    BOTH_JUDGES,
    add_draft,
    add_judge,
    add_precision,
    add_speaker_judge,
    load_synthesizer,
    mean_sizes,
    worker_spec,
)
from pcg.errors import InputError, PCGError, counted

if TYPE_CHECKING:
    import numpy as np

    from pcg.cli.common import Commands
    from pcg.experiments.unit import Record, Unit
    from pcg.synthesis.costs import StepCosts
    from pcg.synthesis.synthesizer import Synthesizer

PAGE = "report.html"


def add(commands: "Commands") -> None:
    parser = commands.add_parser("report", help="write what the results of experiments say, as one page")
    parser.add_argument("results", type=Path, help="the folder that experiment run or swap has filled")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help=f"default: {PAGE} in that folder")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE.md",
        help="write no page, but the tables of the page that is there into this document, where its marks name them",
    )
    parser.add_argument("--only", metavar="TABLE", help="write no page, but this table alone, as JSON, into the file of --out")
    parser.add_argument("--pack", action="store_true", help="write no page, but all results into one small file, to publish")
    parser.add_argument(
        "--model", help="report what this one said ('embedded' or a folder), with sounds, group sizes and bounds"
    )
    add_judge(parser, BOTH_JUDGES)
    add_speaker_judge(parser)
    add_draft(parser)
    add_precision(parser)
    parser.add_argument("--device", default="cpu", help="where --model was, cpu or cuda (default cpu)")
    parser.set_defaults(command=run)
    _add_listening_test(commands)


def _add_listening_test(commands: "Commands") -> None:
    parser = commands.add_parser("listening-test", help="what many listeners' records of the blind test say together")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    summarise = actions.add_parser("summarise", help="preferences and mean scores with intervals over listeners; JSON last")
    summarise.add_argument("files", type=Path, nargs="+", metavar="FILE", help="records that the page exported as JSON")
    summarise.set_defaults(command=summarise_listeners)


def summarise_listeners(options: argparse.Namespace) -> None:
    from pcg.experiments.listening_tests.pooled import pool, read_listener

    found = pool([read_listener(file) for file in options.files])
    for each in found:
        left_out = f", {counted(each.left_out, 'listener')} left out who missed the reference" if each.left_out else ""
        print(f"{each.kind}: {counted(each.listeners, 'listener')}, {counted(each.trials, 'trial')}{left_out}")
        for name, share in each.shares.items():
            print(f"  {name}: {share.value:.2f} [{share.low:.2f}, {share.high:.2f}]")
        if each.p is not None:
            print(f"  sign test over listeners: p = {each.p:.3g}")
    print(json.dumps([each.as_dict() for each in found]))


def in_checkout() -> bool:
    """Whether reports can be written: an installed library lacks the explorers, which draw them."""
    return find_spec("explorers") is not None


def run(options: argparse.Namespace) -> None:
    from pcg.experiments.store import Store

    if not options.pack and not in_checkout():
        raise PCGError("Reports are written in a checkout of the project: git clone URL, then run python -m pcg report in it.")
    if options.markdown is not None:
        _fill_document(options.results, options.markdown)
        return
    if not (store := Store(options.results)).exists:
        raise InputError("results", str(options.results), "a folder that experiment run or swap has filled")
    if options.pack:
        count = len(store.all())
        print(f"{store.pack()}: {counted(count, 'unit')}")
        return
    if options.only is not None:
        _write_table(options)
        return
    # The command line is a composition root, as app.py is: here alone the engine's side looks at the explorers'.
    from explorers.experiments.report import write_report

    out, records = options.out or options.results / PAGE, store.all()
    if options.model is None:
        _check_one_voice(records)
        findings = write_report(options.results, out)
    else:
        voice = worker_spec(options).voice_id
        records = [record for record in records if record.context["voice"] == voice]
        if not records:
            raise InputError("model", options.model, f"one that has results with the judge {options.judge} there")
        synthesizer = load_synthesizer(options)
        costs, sizes = _step_costs(synthesizer, records, options, voice), mean_sizes(synthesizer)
        findings = write_report(options.results, out, costs, sizes, _sounds(options), voice=voice)
    made = (findings.records, "unit"), (len(findings.tables), "table"), (len(findings.figures), "figure")
    print(f"{out}: {', '.join(counted(*each) for each in made)}")


def _write_table(options: argparse.Namespace) -> None:
    """One of the tables, without bounds and sizes, as `pcg.experiments.results.document.beside` reads it."""
    from pcg.experiments.results.analysis import Results, summarise
    from pcg.experiments.results.tables import tables
    from pcg.experiments.store import Store
    from pcg.files import renew_checksums, write_json

    if options.out is None:
        raise InputError("out", None, "the JSON file that the table goes to")
    records = Store(options.results).all()
    _check_one_voice(records)
    results = Results(records)
    found = {table.name: table for table in tables(results, summarise(results))}
    if options.only not in found:
        raise InputError("only", options.only, "one of " + ", ".join(found))
    write_json(options.out, {"tables": [found[options.only].as_dict()], "summaries": []})
    renew_checksums(options.out)
    print(f"{options.out}: {found[options.only].title}")


def _fill_document(results: Path, document: Path) -> None:
    """Write the tables of `results` between the marks of `document`; see `pcg.experiments.results.document`."""
    from explorers.experiments.report import RESULTS
    from pcg.experiments.results.document import BESIDE, fill
    from pcg.files import replacing
    from pcg.places import PROJECT

    if not any((results / name).is_file() for name in (RESULTS, *BESIDE)):
        raise InputError("results", str(results), f"a folder with the {RESULTS} that report writes")
    if not document.is_file():
        raise InputError("markdown", str(document), "a document with marks: <!-- table NAME of FOLDER -->")
    whole = results.resolve()
    folder = whole.relative_to(PROJECT).as_posix() if whole.is_relative_to(PROJECT) else whole.as_posix()
    filled = fill(document.read_text(encoding="utf-8"), folder, results / RESULTS)
    with replacing(document) as temporary:
        temporary.write_text(filled, encoding="utf-8")
    print(f"{document}: the tables of {folder}")


def _check_one_voice(records: "Sequence[Record]") -> None:
    """Figures of several models or judges are not to be mixed."""
    several = {(record.context["voice"], record.context["model"]) for record in records}
    if len(several) > 1:
        names = ", ".join(sorted({str(model) for _, model in several}))
        raise InputError(
            "model", None, f"given, with judge and device: there are results of several voices or judges ({names})"
        )


def _step_costs(
    synthesizer: "Synthesizer", records: "Sequence[Record]", options: argparse.Namespace, voice_id: str
) -> "dict[int, StepCosts]":
    """Those of single steps by lookahead, as they are kept beside the results, or else measured, and kept. None where what was
    said at the usual temperature, beside which alone bounds stand, comes from another machine, which they would not bound."""
    import torch

    from pcg.experiments.context import context
    from pcg.experiments.results.kept_costs import keep_costs, read_costs, same_machine
    from pcg.settings import Settings
    from pcg.synthesis.costs import step_costs

    records = [each for each in records if each.unit.settings.temperature == Settings().temperature] or records
    drafting = [record.unit.settings for record in records if record.result.drafted]
    by_lookahead = {settings.lookahead: settings.temperature for settings in drafting}
    kept = read_costs(options.results, voice_id, records) or {}
    if by_lookahead.keys() <= kept.keys():
        return kept
    threads = int(str(records[0].context["threads"]))
    here = context(options.device, synthesizer.voice.precision, threads, 1, {})
    if not same_machine(records, here):
        print("The results are of another machine or kernel: the report has no bounds on speed.", file=sys.stderr)
        return {}
    torch.set_num_threads(threads)
    voice = synthesizer.voice
    prompt = voice.reader.prompt(
        synthesizer.chunks(records[0].unit.utterance.text)[0], voice.reference(next(iter(voice.references)))
    )
    costs = {lookahead: step_costs(voice, prompt, lookahead, t) for lookahead, t in sorted(by_lookahead.items())}
    keep_costs(options.results, voice_id, here, costs)
    return costs


def _sounds(options: argparse.Namespace) -> "Callable[[Unit], tuple[np.ndarray, int]]":
    """Says units again, for the page; their judge is not asked, so it need not be here."""
    from pcg.experiments.worker import WorkerSpec

    chosen = {"draft": options.draft, "precision": options.precision}
    worker = WorkerSpec(options.model, device=options.device, dnsmos=False, **chosen).load()

    def say(unit: "Unit") -> "tuple[np.ndarray, int]":
        said = worker.sound(unit)
        return said.samples, said.sample_rate

    return say
