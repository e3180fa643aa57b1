"""Recognise: what is said in a sound, which step of self-speculative decoding accepted it, and what thresholds are worth."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from pathlib import Path

import gradio as gr
import numpy as np

from explorers.compare.layout import DECODING
from explorers.errors import telling, told
from explorers.recognise.actions import (
    HIGHEST_CTC,
    HIGHEST_LM,
    PRESET_NAMES,
    hear,
    last_utterance,
    preset_of,
    read_sound,
    sliders_of,
    thresholds_of,
    warmed,
)
from explorers.recognise.figures import entropy_figure, sweep_figure
from explorers.recognise.sweep import MOST_FILES, Sweep, read_recordings, sweep
from explorers.recognise.transcript import (
    PROMPT,
    SWEEP_PROMPT,
    alignment_html,
    message_html,
    progress_html,
    sweep_table,
    sweep_told,
    transcript_html,
)
from explorers.recognise.word_list import create_words
from explorers.session import Session
from explorers.shared.terms import term_info
from explorers.theme import SOUND_COLOUR, WAVE_COLOUR
from pcg.errors import InputError, PCGError
from pcg.prompts.text import MAX_CHARACTERS
from pcg.recognition.recogniser import ScoringRecogniser
from pcg.synthesis.synthesizer import Synthesizer

Load = Callable[[], ScoringRecogniser]
HEADING = """<header class="title"><h2>Recognise<small>self-speculative speech recognition</small></h2>
<p>The encoder's CTC head drafts a text. If every frame is certain, that is the transcript; else the language model reads the
draft in one pass; only from the first token that it finds unlikely does it write by itself.</p></header>"""
SWEEP_HEADING = """<header class="title"><h2>Sweep<small>errors against speed, over your files</small></h2>
<p>AR, both presets and the thresholds around them. Transcripts are lines of a file's name, a tab and its text, or a JSON object
of texts by name; without them, the words that differ from AR's are counted.</p></header>"""
CTC_INFO = (
    f"The {term_info('entropy-gate', 'CTC gate')} opens if every frame's entropy is below. Higher: faster, and more errors. "
    "0 leaves it out."
)
LM_INFO = (
    f"A token of the draft is {term_info('likelihood', 'verified')} if its likelihood is above. Higher: stricter. 1 leaves it "
    "out."
)
SWEEP_EMPTY = "Add sounds on the left and press “Sweep”: the figure and the table grow here, setting by setting."
STOPPED = "Stopped. Finished settings stay."


@dataclass(frozen=True)
class Controls:
    """What a transcription reads."""

    sound: gr.Audio
    last: gr.Button
    run: gr.Button
    reference: gr.Textbox
    preset: gr.Radio
    tau_ctc: gr.Slider
    tau_slm: gr.Slider
    taken: gr.HTML


@dataclass(frozen=True)
class SweepControls:
    """What a sweep reads."""

    files: gr.Files
    transcripts: gr.File
    run: gr.Button
    stop: gr.Button
    status: gr.HTML


@dataclass(frozen=True)
class Places:
    """Where a transcription is shown."""

    transcript: gr.HTML
    entropies: gr.Plot
    errors: gr.HTML
    record: gr.JSON

    @property
    def all(self) -> list[gr.components.Component]:
        return [self.record, self.transcript, self.entropies, self.errors]


@dataclass(frozen=True)
class SweepPlaces:
    """Where a sweep is shown."""

    told: gr.HTML
    figure: gr.Plot
    table: gr.HTML
    record: gr.JSON

    @property
    def all(self) -> list[gr.components.Component]:
        return [self.record, self.told, self.figure, self.table]


def create_recognise(synthesizer: Synthesizer, load: Load, session: gr.State) -> None:
    """Lay the panel out within the Blocks that is being built. `load` is called when a sound is to be heard first; `session`
    holds a Session, whose last utterance may be heard."""
    ready = lru_cache(maxsize=1)(partial(warmed, load, synthesizer))
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls()
            sweeping = _sweep_controls()
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            places = _places()
            create_words(ready, controls.sound, controls.reference)
            swept = _sweep_places()
    _wire(ready, synthesizer, controls, places, session)
    _wire_sweep(ready, sweeping, swept)


def _controls() -> Controls:
    tau_ctc, tau_slm = sliders_of("accurate")
    with gr.Column(elem_classes="lab-desk"):
        sound = gr.Audio(
            sources=["upload", "microphone"], type="filepath", label="Sound", elem_id="recognise-sound",
            waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR),
        )  # fmt: skip
        last = gr.Button("Take the last utterance", elem_id="recognise-last", size="md")
        reference = gr.Textbox(
            label="Reference", info="What is said in it, if you know: errors are counted against it.", lines=2, max_lines=6,
            max_length=MAX_CHARACTERS, elem_id="recognise-reference",
        )  # fmt: skip
        run = gr.Button("Transcribe", variant="primary", elem_id="recognise-run")
        taken = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="recognise-status")
    with gr.Column(elem_classes="lab-desk"):
        preset = gr.Radio(
            [(name, key) for key, name in PRESET_NAMES.items()], value="accurate", label="Preset", elem_id="recognise-preset"
        )
        # No reset buttons: they would move the knob without telling that a person did.
        ctc = gr.Slider(
            0, HIGHEST_CTC, tau_ctc, step=0.05, label="τ CTC, nats", buttons=[], elem_id="tau-ctc",
            info=CTC_INFO,
        )  # fmt: skip
        slm = gr.Slider(
            0, HIGHEST_LM, tau_slm, step=0.01, label="τ LM, likelihood", buttons=[], elem_id="tau-slm",
            info=LM_INFO,
        )  # fmt: skip
    return Controls(sound, last, run, reference, preset, ctc, slm, taken)


def _sweep_controls() -> SweepControls:
    with gr.Column(elem_classes="lab-desk"):
        files = gr.Files(label=f"Sounds to sweep, up to {MOST_FILES}", height=150, elem_id="sweep-files")
        transcripts = gr.File(label="Transcripts, if you have them", height=150, elem_id="sweep-transcripts")
        with gr.Row():
            run = gr.Button("Sweep", elem_id="sweep-run", scale=3)
            stop = gr.Button("Stop", elem_id="sweep-stop", scale=1, min_width=80)
        status = gr.HTML(message_html(SWEEP_PROMPT), apply_default_css=False, elem_id="sweep-status")
    return SweepControls(files, transcripts, run, stop, status)


def _places() -> Places:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        transcript = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="recognise-transcript")
        entropies = gr.Plot(show_label=False, visible=False, elem_id="recognise-entropies")
        errors = gr.HTML(alignment_html(None, ""), apply_default_css=False, elem_id="recognise-errors")
        with gr.Accordion("As JSON", open=False):
            record = gr.JSON(show_label=False, elem_id="recognise-record", max_height=320)
    return Places(transcript, entropies, errors, record)


def _sweep_places() -> SweepPlaces:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(SWEEP_HEADING, apply_default_css=False)
        words = gr.HTML(message_html(SWEEP_EMPTY), apply_default_css=False, elem_id="sweep-told")
        figure = gr.Plot(show_label=False, visible=False, elem_id="sweep-figure")
        table = gr.HTML("", apply_default_css=False, elem_id="sweep-table")
        with gr.Accordion("As JSON", open=False):
            record = gr.JSON(show_label=False, elem_id="sweep-record", max_height=320)
    return SweepPlaces(words, figure, table, record)


def _transcriber(ready: Load) -> Callable[..., list[object]]:
    def transcribe(sound: str | None, tau_ctc: float, tau_slm: float, reference: str | None) -> list[object]:
        with telling():
            thresholds = thresholds_of(tau_ctc, tau_slm)
            preset = preset_of(thresholds)
            if sound is None:
                empty = gr.update(value=None, visible=False)
                return [None, message_html(PROMPT), empty, alignment_html(None, ""), preset]
            recogniser = ready()
            samples = read_sound(Path(sound), recogniser.sample_rate)
            heard = hear(recogniser, samples, recogniser.sample_rate, thresholds, reference or "")
        picture = gr.update(value=entropy_figure(heard), visible=True)
        errors = alignment_html(heard.alignment, heard.judge)
        return [heard.record(), transcript_html(heard), picture, errors, preset]

    return transcribe


def _chooser(transcribe: Callable[..., list[object]]) -> Callable[..., list[object]]:
    def choose(preset: str, sound: str | None, reference: str | None) -> list[object]:
        with telling():
            tau_ctc, tau_slm = sliders_of(preset)
        return [tau_ctc, tau_slm, *transcribe(sound, tau_ctc, tau_slm, reference)]

    return choose


def _taker(synthesizer: Synthesizer) -> Callable[[Session], list[object]]:
    def take(session: Session) -> list[object]:
        with telling():
            spoken = last_utterance(synthesizer, session)
        words = f"The {spoken.method.upper()} take, by {escape(spoken.voice)}."
        if spoken.stands_in:
            words = f"The {spoken.method.upper()} take. Your recording is not kept, so {escape(spoken.voice)} stands in."
        # int16, because the player scales floats to their own peak, and loudness would no longer compare.
        sound = (spoken.sample_rate, (spoken.samples.clip(-1, 1) * 32767).astype(np.int16))
        return [sound, spoken.text, message_html(words)]

    return take


def _sweeper(ready: Load) -> Callable[..., Iterator[list[object]]]:
    def run(files: list[str] | None, transcripts: str | None) -> Iterator[list[object]]:
        try:
            if not files:
                raise InputError("files", files, f"1 to {MOST_FILES} sounds")
            recogniser = ready()
            paths = [Path(file) for file in files]
            recordings = read_recordings(paths, Path(transcripts) if transcripts else None, recogniser.sample_rate)
            shown = 0
            with closing(sweep(recogniser, recordings)) as steps:
                for step in steps:
                    news = [gr.skip()] * 4 if len(step.points) == shown else _swept(step)
                    shown = len(step.points)
                    yield [*news, progress_html(step)]
        except PCGError as error:
            yield [*[gr.skip()] * 4, message_html(SWEEP_PROMPT)]
            raise told(error) from error

    return run


def _swept(step: Sweep) -> list[object]:
    return [step.record(), sweep_told(step), gr.update(value=sweep_figure(step), visible=True), sweep_table(step)]


def _wire(ready: Load, synthesizer: Synthesizer, controls: Controls, places: Places, session: gr.State) -> None:
    # Beside a take that is being spoken, the times of both would be wrong.
    alone = {"concurrency_id": DECODING, "concurrency_limit": 1, "trigger_mode": "always_last"}
    transcribe = _transcriber(ready)
    gr.on(
        # `input` and not `change`: presets move the sliders, too.
        [
            controls.run.click, controls.sound.change, controls.tau_ctc.input, controls.tau_slm.input,
            controls.reference.submit, controls.reference.blur,
        ],
        transcribe,
        [controls.sound, controls.tau_ctc, controls.tau_slm, controls.reference],
        [*places.all, controls.preset],
        show_progress="hidden",
        api_name="transcribe",
        api_description="Transcribe a sound at two thresholds: first a record with text, stage, RTFx, times, entropies and, "
        "with a reference, WER; then the same as HTML and a figure.",
        **alone,
    )  # fmt: skip
    controls.preset.input(
        _chooser(transcribe), [controls.preset, controls.sound, controls.reference],
        [controls.tau_ctc, controls.tau_slm, *places.all, controls.preset],
        show_progress="hidden", api_visibility="private", **alone,
    )  # fmt: skip
    controls.last.click(
        _taker(synthesizer), session, [controls.sound, controls.reference, controls.taken],
        api_name="last_utterance", api_description="The sound of this session's last utterance, and its text.",
    )  # fmt: skip


def _wire_sweep(ready: Load, controls: SweepControls, places: SweepPlaces) -> None:
    run = controls.run.click(
        _sweeper(ready), [controls.files, controls.transcripts], [*places.all, controls.status],
        show_progress="hidden", concurrency_id=DECODING, concurrency_limit=1,
        api_name="sweep_thresholds",
        api_description="Hear files at AR and a grid of thresholds; streams the settings done so far: record, figure, table.",
    )  # fmt: skip
    controls.stop.click(
        lambda: message_html(STOPPED), None, controls.status, cancels=run, queue=False, api_visibility="private"
    )
