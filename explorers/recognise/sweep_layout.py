"""The sweep of the Recognise panel: errors against speed at several thresholds, over a visitor's files."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from explorers.errors import page_error
from explorers.recognise.figures import sweep_figure
from explorers.recognise.sweep import MOST_FILES, Sweep, read_recordings, sweep
from explorers.recognise.transcript import SWEEP_PROMPT, progress_html, sweep_summary, sweep_table
from explorers.shared.blocks import DECODING, json_drawer, queued_beside, run_and_stop, wire_stop
from explorers.shared.readout import failure_html, message_html
from pcg.asr.recogniser import ScoringRecogniser
from pcg.errors import InputError, PCGError

SWEEP_HEADING = """<header class="title"><h2>Sweep<small>errors against speed, over your files</small></h2>
<p>AR, both presets and the thresholds around them. Transcripts are lines of file name, tab and text, or a JSON object of texts
by name. Without transcripts, differences to the words of AR are counted.</p></header>"""
SWEEP_EMPTY = "Add sounds on the left and press “Sweep”: the figure and the table grow here, setting by setting."
STOPPED = "Stopped. Finished settings stay."

Load = Callable[[], ScoringRecogniser]
Updates = dict[gr.components.Component, object]


@dataclass(frozen=True)
class SweepControls:
    """What a sweep reads."""

    files: gr.Files
    transcripts: gr.File
    run: gr.Button
    stop: gr.Button
    status: gr.HTML


@dataclass(frozen=True)
class SweepPlaces:
    """Where a sweep is shown."""

    summary: gr.HTML
    figure: gr.Plot
    table: gr.HTML
    record: gr.JSON

    @property
    def all(self) -> list[gr.components.Component]:
        return [self.record, self.summary, self.figure, self.table]


def create_sweep_controls() -> SweepControls:
    """Lay the controls out within the Blocks that is being built."""
    with gr.Column(elem_classes="lab-form"):
        files = gr.Files(label=f"Sounds to sweep, up to {MOST_FILES}", height=150, elem_id="sweep-files")
        transcripts = gr.File(label="Transcripts (optional)", height=150, elem_id="sweep-transcripts")
        run, stop = run_and_stop("sweep-", "Sweep", "secondary")
        status = gr.HTML(message_html(SWEEP_PROMPT), apply_default_css=False, elem_id="sweep-status")
    return SweepControls(files, transcripts, run, stop, status)


def create_sweep_places() -> SweepPlaces:
    """Lay the results out within the Blocks that is being built."""
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(SWEEP_HEADING, apply_default_css=False)
        words = gr.HTML(message_html(SWEEP_EMPTY), apply_default_css=False, elem_id="sweep-summary")
        figure = gr.Plot(show_label=False, visible=False, elem_id="sweep-figure")
        table = gr.HTML("", apply_default_css=False, elem_id="sweep-table")
        record = json_drawer("sweep-record")
    return SweepPlaces(words, figure, table, record)


def _sweeper(ready: Load, places: SweepPlaces, status: gr.HTML) -> Callable[..., Iterator[Updates]]:
    def run(files: list[str] | None, transcripts: str | None) -> Iterator[Updates]:
        try:
            if not files:
                raise InputError("files", files, f"1 to {MOST_FILES} sounds")
            recogniser = ready()
            paths = [Path(file) for file in files]
            recordings = read_recordings(paths, Path(transcripts) if transcripts else None, recogniser.sample_rate)
            shown = 0
            with closing(sweep(recogniser, recordings)) as steps:
                for step in steps:
                    news = {} if len(step.points) == shown else _swept(step, places)
                    shown = len(step.points)
                    yield {status: progress_html(step), **news}
        except PCGError as error:
            yield {status: failure_html(error)}
            raise page_error(error) from error

    return run


def _swept(step: Sweep, places: SweepPlaces) -> Updates:
    return {
        places.record: step.record(),
        places.summary: sweep_summary(step),
        places.figure: gr.update(value=sweep_figure(step), visible=True),
        places.table: sweep_table(step),
    }


def wire_sweep(ready: Load, controls: SweepControls, places: SweepPlaces) -> None:
    """Let the button run a sweep; `ready` loads the recogniser."""
    run = controls.run.click(
        _sweeper(ready, places, controls.status), [controls.files, controls.transcripts], [*places.all, controls.status],
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="sweep_thresholds",
        api_description="Transcribe files with AR and a grid of thresholds; streams finished settings: record, figure, table.",
    )  # fmt: skip
    wire_stop(controls.stop, run, controls.status, STOPPED)
