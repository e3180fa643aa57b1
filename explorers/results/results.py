"""The Results tab: the verdict, six tables with figures, and runs of one's own; `pcg report` writes all tables."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path

import gradio as gr
import plotly.graph_objects as go
from gradio.components import Component

from explorers.errors import showing_errors
from explorers.results.figures import CAPTIONS
from explorers.results.report import RESULTS, measured_html, write_report
from explorers.shared.controls import queued_beside, run_and_stop, wire_stop
from explorers.shared.readout import message_html
from explorers.shared.verdict import measured, winner_lines
from pcg.errors import AssetError, InputError, counted, first_line
from pcg.experiments.grids import EXPERIMENTS, SET, declared, in_turns, offline_utterances
from pcg.experiments.papers import CONTRADICTED, DISAGREE, HOLDS, OPEN, UNTESTED
from pcg.experiments.runner import run
from pcg.experiments.store import Store
from pcg.experiments.unit import Unit
from pcg.experiments.worker import WorkerSpec
from pcg.files import check_checksums
from pcg.places import ASSETS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import BFLOAT16, FLOAT32

SHIPPED, LOSSY, OWN = "shipped", "lossy", "own"
SOURCES = {
    SHIPPED: "shipped with this project", LOSSY: "every lossy rule, shipped", "lossy_pcg": "those with a weak draft, shipped",
    "lossy_ssd": "those with a weaker draft, shipped", OWN: "run on this server",
}  # fmt: skip
FOLDERS = {name: ASSETS / name for name in SOURCES} | {SHIPPED: ASSETS / "results", OWN: Path("runs") / "results"}
SIZES = {"quick": "quick: few utterances, for a trial", "full": "full: for conclusions"}
SHIPPED_JUDGES = "whisper,embedded"
# The tables of the page, in its order; all others are in the report.
TABLES = ("main", "tradeoff", "work", "swap", "claims")
VERDICTS = {
    HOLDS: "hold", CONTRADICTED: "are contradicted", DISAGREE: "divide the judges",
    OPEN: "are open, as the intervals are too wide", UNTESTED: "were not tested",
}  # fmt: skip
NO_RESULTS = "There are no results of this server yet. Choose an experiment below and run it."
OTHER_VOICE = " They were measured with another voice, draft or judge than this page has."
READY = "Choose experiments, then run. Only what is missing is done, and finished units are kept."
STOPPED = "Stopped. Finished units stay; the next run continues from them."
HEADING = '<header class="title"><h2>Results<small>what the papers claim, measured here</small></h2></header>'

Updates = dict[Component, object]


def shipped_ids(spec: WorkerSpec) -> frozenset[str]:
    """Return the identities of the page's voice: with its judge, and in any precision with those of the shipped results."""
    judged = [replace(spec, judge=SHIPPED_JUDGES, precision=precision) for precision in (FLOAT32, BFLOAT16)]
    return frozenset(one.voice_id for one in (spec, *judged))


def read_results(folder: Path) -> Mapping | None:
    """Read the `results.json` of a report; None without any. Raises AssetError for a damaged one."""
    path = folder / RESULTS
    if not path.is_file():
        return None
    check_checksums(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AssetError(f"The results in {path} are damaged ({first_line(error)}).") from error


def verdict_html(results: Mapping | None, source: str, same_voice: bool) -> str:
    """Write which rule won at what price, and the origin of the results; all words are escaped."""
    if results is None:
        return f'<p class="results-note">{NO_RESULTS}</p>'
    most = max((row["n"] for table in results["tables"] if table["name"] == "conditions" for row in table["rows"]), default=0)
    days = sorted(set(re.findall(r"\d{4}-\d\d-\d\d", " ".join(results["made"].get("date", ())))))
    known = {"model": results["made"].get("model"), "date": days}
    made = "; ".join(f"{name}: {' and '.join(values)}" for name, values in known.items() if values)
    origin = f"{counted(results['records'], 'unit')} {SOURCES[source]}, up to {counted(most, 'utterance')} a setting. {made}."
    other = "" if same_voice else OTHER_VOICE
    won = [] if LOSSY in source else winner_lines(measured(results))  # which has rules that the sentences do not know
    lines = "".join(f"<li>{escape(line)}</li>" for line in won)
    note = f"{escape(origin)}{other} Brackets: 95 % intervals. All tables: python -m pcg report FOLDER."
    return f'<ol class="results-verdict">{lines}</ol><p class="results-note">{note}</p>'


def card_html(table: Mapping) -> str:
    """Return a table below its caption; above the claims stands how many hold, are contradicted, or are open."""
    caption = CAPTIONS.get(table["name"], "")
    if table["name"] == "claims":
        verdicts = Counter(row["verdict"].partition(",")[0] for row in table["rows"])
        counts = [f"{verdicts[verdict]} {words}" for verdict, words in VERDICTS.items() if verdicts[verdict]]
        caption = f"Of {counted(len(table['rows']), 'claim')} of the papers, {', '.join(counts)}."
    note = f'<p class="results-caption">{escape(caption)}</p>' if caption else ""
    return f"{note}{measured_html(table)}"


def units_of(synthesizer: Synthesizer, names: Sequence[str], quick: bool) -> list[Unit]:
    """Return the units of the experiments `names`, those of an utterance and seed together; raise InputError."""
    if not names:
        raise InputError("experiments", "none", "at least one of " + ", ".join(EXPERIMENTS))
    voice, most = synthesizer.voice, max(EXPERIMENTS[name].full for name in SET)
    utterances = offline_utterances(most, list(voice.references))
    grids = (declared(name, utterances, quick) for name in dict.fromkeys(names))
    return in_turns(grid.for_draft(voice.draft_kind, voice.draft_speaks_alone) for grid in grids)


def run_units(units: Sequence[Unit], spec: WorkerSpec, folder: Path) -> Iterator[str]:
    """Do those of `units` that `folder` lacks, then write its report; tell the progress. Finished units stay stored."""
    store, keys = Store(folder), {unit.key(spec.voice_id) for unit in units}
    known, total = len(store.known(keys)), counted(len(keys), "unit")
    yield f"{known:,} of {total}: preparing."
    with closing(run(units, spec, store)) as records:
        for done, _ in enumerate(records, start=known + 1):
            yield f"{done:,} of {total}."
    write_report(folder, folder / "report.html", voice=spec.voice_id)
    yield f"All done: {total}."


def create_results(
    page: gr.Blocks,
    synthesizer: Synthesizer,
    spec: WorkerSpec,
    voice_ids: frozenset[str],
    folders: Mapping[str, Path] = FOLDERS,
) -> None:
    """Lay the panel out. spec: the voice and the judges of a run; voice_ids: by `shipped_ids`; folders: of SOURCES."""
    sources = [name for name in folders if name == OWN or (folders[name] / RESULTS).is_file()]
    cards: dict[str, tuple[gr.Accordion, gr.Plot | None, gr.HTML]] = {}
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        verdict = gr.HTML("", apply_default_css=False, elem_id="results-verdict")
        source = gr.Radio(
            [(SOURCES[name], name) for name in sources], value=sources[0], label="Results", elem_id="results-source",
            visible=len(sources) > 1,
        )  # fmt: skip
    for name in TABLES:
        look = {"open": name == "main", "elem_id": f"results-card-{name}", "elem_classes": "lab-card"}
        with gr.Accordion(name, visible=False, **look) as card:
            figure = gr.Plot(show_label=False, elem_id=f"results-figure-{name}") if name in CAPTIONS else None
            cards[name] = card, figure, gr.HTML("", apply_default_css=False, elem_id=f"results-table-{name}")
        card.expand(js="() => setTimeout(() => dispatchEvent(new Event('resize')), 100)")  # a figure drawn while hidden
    with gr.Accordion("Run experiments on this server", open=False, elem_classes="lab-card"):
        choices = [(experiment.title, name) for name, experiment in EXPERIMENTS.items()]
        names = gr.CheckboxGroup(choices, value=["main"], label="Experiments", elem_id="results-names")
        size = gr.Radio([(title, key) for key, title in SIZES.items()], value="quick", label="Size", elem_id="results-size")
        start, stop = run_and_stop("results-", "Run", "secondary")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="results-status")
    record = gr.JSON(visible=False)
    read = lru_cache(lambda folder, stamp: read_results(folder))

    def experiments(source: str) -> Updates:
        with showing_errors():
            path = folders[source] / RESULTS
            results = read(folders[source], path.stat().st_mtime_ns if path.is_file() else None)
        shown = results or {"records": 0, "made": {}, "tables": [], "figures": {}}
        same_voice = bool(results is None or set(shown["made"].get("voice", ())) & voice_ids)
        brief = {key: shown[key] for key in ("records", "made", "tables")}
        updates: Updates = {record: {"source": source, **brief}, verdict: verdict_html(results, source, same_voice)}
        tables = {table["name"]: table for table in shown["tables"]}
        for name, (card, figure, place) in cards.items():
            table, drawn = tables.get(name), shown["figures"].get(name) if name in tables else None
            updates[card] = gr.update(visible=table is not None, label=table and table["title"])
            updates[place] = card_html(table) if table else ""
            if figure:
                updates[figure] = gr.update(value=drawn and go.Figure(drawn), visible=drawn is not None)
        return updates

    def run_experiments(names: list[str], size: str) -> Iterator[Updates]:
        with showing_errors(), closing(run_units(units_of(synthesizer, names, size == "quick"), spec, folders[OWN])) as steps:
            for words in steps:
                yield {status: message_html(words)}
        yield experiments(OWN) | {source: OWN}

    places = [record, verdict, *(place for card in cards.values() for place in card if place)]
    gr.on(
        [page.load, source.input], experiments, source, places, trigger_mode="always_last", show_progress="hidden",
        concurrency_limit=1, api_name="experiments",
        api_description="The results of a source (shipped, lossy, own ...): a record with every table; then HTML and figures.",
    )  # fmt: skip
    outputs = [*places, source, status]
    running = start.click(run_experiments, [names, size], outputs, api_visibility="private", **queued_beside(status))
    wire_stop(stop, running, status, STOPPED)
