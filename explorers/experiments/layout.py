"""The Experiments panel: the papers' tables, figures and claims on this voice, and the takes behind their points."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
import numpy as np
from gradio.blocks import Block
from gradio.components import Component

from explorers.errors import page_error, showing_errors
from explorers.experiments.actions import SpeakingWorker, View, condition_names, made, record_of, study
from explorers.experiments.archive import OWN, SOURCES, Archive
from explorers.experiments.cards import CARDS, CLICKABLE, FigureCard, contents_html, create_card
from explorers.experiments.findings import duration, progress_html, source_html
from explorers.experiments.grids import chosen_grids, units_of
from explorers.experiments.report import RESULTS as DATA
from explorers.experiments.report import Findings
from explorers.experiments.sounds import HearingControls, create_hearing, wire_hearing
from explorers.shared.blocks import DECODING, json_drawer, queued_beside, run_and_stop, wire_stop
from explorers.shared.readout import failure_html, message_html
from pcg.errors import PCGError, counted
from pcg.experiments.grids import TITLES
from pcg.experiments.runner import Progress
from pcg.experiments.unit import Unit
from pcg.experiments.worker import WorkerSpec
from pcg.places import ASSETS
from pcg.synthesis.synthesizer import Synthesizer

RESULTS = Path("runs") / "results"
COMMITTED = ASSETS / "results"
HEADING = """<header class="title"><h2>Experiments<small>the papers' claims, measured</small></h2>
<p>Every figure has its 95 % interval over utterances, and the number of the paper below it. Runs on this server, from any
visitor's page or from <code>python -m pcg experiment</code>, are stored apart from the shipped results. A run does only the
missing units.</p></header>"""
GRID_HINT = (
    '<p class="findings-note">Texts, voices, seeds and conditions, as described in <code>pcg/experiments/grid.py</code>. '
    "Whoever opens a page of this server can read and hear the texts of its runs.</p>"
)
SIZE_NAMES = {"quick": "quick: few utterances, for a trial", "full": "full: for conclusions"}
READY = "Choose experiments, then run."
READING = "Reading the results …"
PLANNED = (
    "{units}, {known:,} of them stored{rest}. Each unit is one utterance in one setting with one seed, generated and judged."
)
REST = "; the rest takes about {time} on a CPU"
# Of the embedded voice with both judges, which take most of it, on one core.
UNIT_SECONDS = 1.6
STOPPED = "Stopped. Finished units stay; the next run continues from them."
PAGE = "report.html"


@dataclass(frozen=True)
class ExperimentControls:
    """The left-hand side."""

    names: gr.CheckboxGroup
    size: gr.Radio
    file: gr.File
    run: gr.Button
    stop: gr.Button
    status: gr.HTML
    sounds: gr.Checkbox
    report: gr.Button
    files: gr.Files

    @property
    def asked(self) -> list[Component]:
        return [self.names, self.size, self.file]


@dataclass(frozen=True)
class ExperimentPlaces:
    """The right-hand side. source: whose results are shown; said: how many, and how they were made."""

    source: gr.Radio
    said: gr.HTML
    contents: gr.HTML
    cards: dict[str, FigureCard]
    hearing: HearingControls
    record: gr.JSON

    @property
    def all(self) -> list[Component | gr.Column]:
        drawn = [place for card in self.cards.values() for place in card.all]
        hearing = [self.hearing.card, self.hearing.condition]
        return [self.record, self.source, self.said, self.contents, *hearing, *drawn]


def create_experiments(
    page: gr.Blocks, synthesizer: Synthesizer, spec: WorkerSpec, results: Path = RESULTS, committed: Path | None = COMMITTED
) -> None:
    """Lay the panel out within `page`. `spec` names the voice, which is that of `synthesizer`, and the judges; the worker is
    loaded when it is needed. Own runs are kept in the folder `results`; those in `committed`, which are shown
    at first, nothing changes."""
    archive = Archive(synthesizer, spec, results, committed)
    # To generate takes again, no judges are needed.
    speaker = lru_cache(maxsize=1)(lambda: replace(spec, judge="whisper", dnsmos=False).load())
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls()
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            places = _places(synthesizer, archive)
    view = gr.State(View(archive.sources[0]))
    _wire_results(page, archive, places, view)
    _wire_run(synthesizer, archive, controls, places, view)
    wire_hearing(archive, speaker, places.hearing, places.source)
    _wire_report(archive, speaker, controls, places.source)


def _controls() -> ExperimentControls:
    with gr.Column(elem_classes="lab-form"):
        names = gr.CheckboxGroup(
            [(title, name) for name, title in TITLES.items()], value=["main"], label="Experiments", elem_id="experiments-names"
        )
        size = gr.Radio([(n, k) for k, n in SIZE_NAMES.items()], value="quick", label="Size", elem_id="experiments-size")
        with gr.Accordion("A grid of your own", open=False):
            file = gr.File(label="YAML", file_types=[".yaml", ".yml"], height=110, elem_id="experiments-file")
            gr.HTML(GRID_HINT, apply_default_css=False)
        run, stop = run_and_stop("experiments-", "Run")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="experiments-status")
    with gr.Column(elem_classes="lab-form"):
        sounds = gr.Checkbox(label="with sounds", info="About thirty takes are generated again.", elem_id="experiments-sounds")
        report = gr.Button("Create the report", elem_id="experiments-report", size="md")
        files = gr.Files(label="Report", visible=False, interactive=False, elem_id="experiments-files")
    return ExperimentControls(names, size, file, run, stop, status, sounds, report, files)


def _places(synthesizer: Synthesizer, archive: Archive) -> ExperimentPlaces:
    sources = archive.sources
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        source = gr.Radio(
            [(SOURCES[name], name) for name in sources], value=sources[0], label="Results", elem_id="experiments-source"
        )
        said = gr.HTML(message_html(READING), apply_default_css=False, elem_id="experiments-said")
        contents = gr.HTML("", apply_default_css=False, elem_id="experiments-contents")
    cards = {}
    for name in CARDS:
        cards[name] = create_card(name)
        if name == "main":
            hearing = create_hearing(synthesizer, [f"experiments-figure-{name}" for name in CLICKABLE])
    with gr.Column(elem_classes="lab-card"):
        record = json_drawer("experiments-record")
    return ExperimentPlaces(source, said, contents, cards, hearing, record)


Updates = dict[Block, object]


def _opener(archive: Archive, places: ExperimentPlaces) -> Callable[[str, View], Updates]:
    def show_results(source: str, view: View) -> Updates:
        # At once: a run that goes on must not draw over what takes a while to be read.
        view.source = source
        with showing_errors():
            return _shown(places, source, archive.findings(source), same_voice=archive.result_set(source).same_voice)

    return show_results


def _planner(synthesizer: Synthesizer, archive: Archive) -> Callable[..., str]:
    def plan(names: list[str], size: str, file: str | None) -> str:
        if not names and not file:
            return message_html(READY)
        with showing_errors():
            units = units_of(chosen_grids(synthesizer, names, size, Path(file) if file else None))
            known, total = archive.count(units)
        rest = REST.format(time=duration(UNIT_SECONDS * (total - known))) if known < total else ""
        return message_html(PLANNED.format(units=counted(total, "unit"), known=known, rest=rest))

    return plan


def _runner(
    synthesizer: Synthesizer, archive: Archive, places: ExperimentPlaces, status: gr.HTML
) -> Callable[..., Iterator[Updates]]:
    def run(names: list[str], size: str, file: str | None, view: View) -> Iterator[Updates]:
        shown: Findings | None = None
        begun = False
        try:
            units = units_of(chosen_grids(synthesizer, names, size, Path(file) if file else None))
            view.source = OWN
            with closing(study(archive, units)) as steps:
                for step in steps:
                    news = not begun or step.over or step.findings is not shown
                    updates: Updates = {status: progress_html(step)} | ({} if begun else {places.source: OWN})
                    shown, begun = step.findings, True
                    yield updates | (_shown(places, OWN, shown, step.progress) if news and view.source == OWN else {})
        except PCGError as error:
            yield {status: failure_html(error)}
            raise page_error(error) from error

    return run


def _shown(
    places: ExperimentPlaces, source: str, findings: Findings | None, progress: Progress | None = None, same_voice: bool = True
) -> Updates:
    """The record, where the results are from, their contents, the conditions that can be heard, and every card."""
    tables = {table.name: table for table in findings.tables} if findings else {}
    figures = findings.figures if findings else {}
    facts = made(findings) if findings else {}
    conditions = condition_names(findings)
    updates: Updates = {
        places.record: record_of(source, findings, progress),
        places.said: source_html(source, findings, same_voice),
        places.contents: contents_html(list(tables.values())),
        places.hearing.card: gr.update(visible=bool(conditions)),
        places.hearing.condition: gr.update(choices=conditions),
    }
    for name, card in places.cards.items():
        own = facts if findings and name not in findings.before else {}
        updates |= card.updates(tables.get(name), figures.get(name), source, own)
    return updates


def _reporter(archive: Archive, speaker: Callable[[], SpeakingWorker]) -> Callable[[bool, str], object]:
    # Lives as long as the page, and holds one report.
    folder = TemporaryDirectory(prefix="pcg-lab-report-")

    def say(unit: Unit) -> tuple[np.ndarray, int]:
        sounding = speaker().sound(unit)
        return sounding.samples, sounding.sample_rate

    def write(sounds: bool, source: str) -> object:
        out = Path(folder.name) / PAGE
        with showing_errors():
            archive.report(out, say if sounds else None, source)
        return gr.update(value=[str(out), str(out.with_name(DATA))], visible=True)

    return write


def _wire_results(page: gr.Blocks, archive: Archive, places: ExperimentPlaces, view: gr.State) -> None:
    gr.on(
        [page.load, places.source.input], _opener(archive, places), [places.source, view], places.all,
        trigger_mode="always_last", show_progress="hidden", concurrency_limit=1,
        api_name="experiments",
        api_description="All stored results of a source, those shipped with this project or those of runs on this server: "
        "first a record with every table beside the papers' numbers, and how it was made; then the same as HTML and figures.",
    )  # fmt: skip


def _wire_run(
    synthesizer: Synthesizer, archive: Archive, controls: ExperimentControls, places: ExperimentPlaces, view: gr.State
) -> None:
    running = controls.run.click(
        _runner(synthesizer, archive, places, controls.status), [*controls.asked, view], [*places.all, controls.status],
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="run_experiments",
        api_description=f"Run the missing units of some experiments ({', '.join(TITLES)}), "
        "quick or full, or of a grid in a YAML file; streams a record of the runs on this server, with progress and tables "
        "first of all, then HTML and figures.",
    )  # fmt: skip
    wire_stop(controls.stop, running, controls.status, STOPPED)
    gr.on(
        [component.input for component in (controls.names, controls.size)] + [controls.file.change],
        _planner(synthesizer, archive), controls.asked, controls.status,
        trigger_mode="always_last", show_progress="hidden", concurrency_limit=1,
        api_name="plan_experiments", api_description="The number of units of some experiments, and how many are stored.",
    )  # fmt: skip


def _wire_report(
    archive: Archive, speaker: Callable[[], SpeakingWorker], controls: ExperimentControls, source: gr.Radio
) -> None:
    controls.report.click(
        _reporter(archive, speaker), [controls.sounds, source], controls.files,
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="experiment_report",
        api_description="All stored results of a source as one self-contained HTML page, optionally with sounds, and as JSON.",
    )  # fmt: skip
