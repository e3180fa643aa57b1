"""The Recognise panel: the transcript of a sound, by self-speculative decoding, and the step that accepted it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from pathlib import Path

import gradio as gr

from explorers.colours import SOUND_COLOUR, WAVE_COLOUR
from explorers.errors import showing_errors
from explorers.recognise.actions import (
    HIGHEST_CTC,
    HIGHEST_LM,
    NO_SOUND,
    PRESET_NAMES,
    hear,
    preset_of,
    read_sound,
    sliders_of,
    take_again,
    thresholds_of,
    warmed,
)
from explorers.recognise.figures import entropy_figure
from explorers.recognise.transcript import (
    PROMPT,
    alignment_html,
    status_html,
    transcript_html,
)
from explorers.session import Session
from explorers.shared.blocks import DECODING, json_drawer, pcm, queued_beside
from explorers.shared.readout import message_html
from explorers.shared.terms import explained
from pcg.asr.recogniser import ScoringRecogniser
from pcg.errors import PCGError
from pcg.synthesis.synthesizer import Synthesizer

Load = Callable[[], ScoringRecogniser]
HEADING = """<header class="title"><h2>Recognise<small>self-speculative speech recognition</small></h2>
<p>The CTC head of the encoder drafts a text. If every frame is certain, the draft is the transcript. Otherwise the language
model verifies the draft in one pass, and decodes on its own from the first rejected token.</p></header>"""
CTC_INFO = explained("entropy-gate", "Higher is faster, with more errors, and 0 disables it.")
LM_INFO = explained("likelihood", "Higher is stricter, and 1 disables it.")


@dataclass(frozen=True)
class RecogniseControls:
    """What a transcription reads."""

    sound: gr.Audio
    last: gr.Button
    run: gr.Button
    reference: gr.Textbox
    preset: gr.Radio
    tau_ctc: gr.Slider
    tau_slm: gr.Slider
    status: gr.HTML
    taken: gr.HTML


@dataclass(frozen=True)
class RecognisePlaces:
    """Where a transcription is shown."""

    transcript: gr.HTML
    entropies: gr.Plot
    errors: gr.HTML
    record: gr.JSON

    @property
    def all(self) -> list[gr.components.Component]:
        return [self.record, self.transcript, self.entropies, self.errors]


def create_recognise(synthesizer: Synthesizer, load: Load, session: gr.State, in_hand: gr.Radio) -> None:
    """Lay the panel out within the Blocks that is being built. `load` is called before the first transcript; `session`
    holds a Session, and `in_hand` tells which of its takes may be transcribed."""
    ready = lru_cache(maxsize=1)(partial(warmed, load, synthesizer))
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls()
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            places = _places()
    _wire(ready, synthesizer, controls, places, session, in_hand)


def _controls() -> RecogniseControls:
    tau_ctc, tau_slm = sliders_of("accurate")
    with gr.Column(elem_classes="lab-form"):
        sound = gr.Audio(
            sources=["upload", "microphone"], type="filepath", label="Sound", elem_id="recognise-sound",
            waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR),
        )  # fmt: skip
        last = gr.Button("Use the take in hand", elem_id="recognise-last", size="md")
        taken = gr.HTML("", apply_default_css=False, elem_id="recognise-taken")
        reference = gr.Textbox(
            label="Reference", info="The correct text, if known: errors are counted against it.", lines=2, max_lines=6,
            elem_id="recognise-reference",
        )  # fmt: skip
        run = gr.Button("Transcribe", variant="primary", elem_id="recognise-run")
        status = gr.HTML(status_html(None), apply_default_css=False, elem_id="recognise-status")
    with gr.Column(elem_classes="lab-form"):
        preset = gr.Radio(
            [(name, key) for key, name in PRESET_NAMES.items()], value="accurate", label="Preset", elem_id="recognise-preset"
        )
        # No reset buttons: they would move the slider without the event of a user's input.
        ctc = gr.Slider(
            0, HIGHEST_CTC, tau_ctc, step=0.05, label="τ CTC, nats", buttons=[], elem_id="tau-ctc",
            info=CTC_INFO,
        )  # fmt: skip
        slm = gr.Slider(
            0, HIGHEST_LM, tau_slm, step=0.01, label="τ LM, likelihood", buttons=[], elem_id="tau-slm",
            info=LM_INFO,
        )  # fmt: skip
    return RecogniseControls(sound, last, run, reference, preset, ctc, slm, status, taken)


def _places() -> RecognisePlaces:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        transcript = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="recognise-transcript")
        entropies = gr.Plot(show_label=False, visible=False, elem_id="recognise-entropies")
        errors = gr.HTML(alignment_html(None, ""), apply_default_css=False, elem_id="recognise-errors")
        record = json_drawer("recognise-record")
    return RecognisePlaces(transcript, entropies, errors, record)


def _transcriber(ready: Load) -> Callable[..., list[object]]:
    def transcribe(sound: str | None, tau_ctc: float, tau_slm: float, reference: str | None) -> list[object]:
        with showing_errors():
            thresholds = thresholds_of(tau_ctc, tau_slm)
            preset = preset_of(thresholds)
            if sound is None:
                raise PCGError(NO_SOUND)
            recogniser = ready()
            samples = read_sound(Path(sound), recogniser.sample_rate)
            heard = hear(recogniser, samples, recogniser.sample_rate, thresholds, reference or "")
        picture = gr.update(value=entropy_figure(heard), visible=True)
        errors = alignment_html(heard.alignment, heard.judge)
        return [heard.record(), transcript_html(heard), picture, errors, preset, status_html(heard)]

    return transcribe


def _follower(transcribe: Callable[..., list[object]]) -> Callable[..., list[object]]:
    """The same after a change of any control: nobody asked for a transcript, so without a sound the page is empty."""

    def follow(sound: str | None, tau_ctc: float, tau_slm: float, reference: str | None) -> list[object]:
        if sound is not None:
            return transcribe(sound, tau_ctc, tau_slm, reference)
        with showing_errors():
            preset = preset_of(thresholds_of(tau_ctc, tau_slm))
        hidden = gr.update(value=None, visible=False)
        return [None, message_html(PROMPT), hidden, alignment_html(None, ""), preset, status_html(None)]

    return follow


def _chooser(follow: Callable[..., list[object]]) -> Callable[..., list[object]]:
    def choose(preset: str, sound: str | None, reference: str | None) -> list[object]:
        with showing_errors():
            tau_ctc, tau_slm = sliders_of(preset)
        return [tau_ctc, tau_slm, *follow(sound, tau_ctc, tau_slm, reference)]

    return choose


def _taker(synthesizer: Synthesizer) -> Callable[[str, Session], list[object]]:
    def take(method: str, session: Session) -> list[object]:
        with showing_errors():
            spoken = take_again(synthesizer, session.in_hand(method))
        words = f"The {spoken.method.upper()} take, by {escape(spoken.voice)}."
        return [pcm(spoken.samples, spoken.sample_rate), spoken.text, message_html(words)]

    return take


def _wire(
    ready: Load,
    synthesizer: Synthesizer,
    controls: RecogniseControls,
    places: RecognisePlaces,
    session: gr.State,
    in_hand: gr.Radio,
) -> None:
    # Next to a take that is being generated, the times of both would be wrong.
    alone = {"concurrency_id": DECODING, "concurrency_limit": 1, **queued_beside(controls.status)}
    transcribe = _transcriber(ready)
    follow = _follower(transcribe)
    asked = [controls.sound, controls.tau_ctc, controls.tau_slm, controls.reference]
    shown = [*places.all, controls.preset, controls.status]
    controls.run.click(
        transcribe, asked, shown,
        api_name="transcribe",
        api_description="Transcribe a sound at two thresholds: first a record with text, stage, RTFx, times, entropies and, "
        "with a reference, WER; then the same as HTML and a figure.",
        **alone,
    )  # fmt: skip
    gr.on(
        # `input` and not `change`: presets move the sliders, too.
        [
            controls.sound.change, controls.tau_ctc.input, controls.tau_slm.input,
            controls.reference.submit, controls.reference.blur,
        ],
        follow, asked, shown, api_visibility="private", **alone,
    )  # fmt: skip
    controls.preset.input(
        _chooser(follow), [controls.preset, controls.sound, controls.reference], [controls.tau_ctc, controls.tau_slm, *shown],
        api_visibility="private", **alone,
    )  # fmt: skip
    # What is said of the take in hand does not hold for another sound.
    gr.on(
        [controls.sound.upload, controls.sound.start_recording, controls.sound.clear],
        lambda: "", None, controls.taken, queue=False, api_visibility="private",
    )  # fmt: skip
    controls.last.click(
        _taker(synthesizer), [in_hand, session], [controls.sound, controls.reference, controls.taken],
        api_name="last_take", api_description="The sound of the take in hand, and its text.",
    )  # fmt: skip
