"""Controls that several panels have. The ids of a panel's controls begin with its `prefix`."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from inspect import Parameter, Signature
from typing import TypeVar

import gradio as gr
import numpy as np
from gradio.events import Dependency

from explorers.colours import SOUND_COLOUR, WAVE_COLOUR
from explorers.shared.readout import message_html
from pcg.settings import Settings, bounds
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS

DECODING = "decoding"
"""The queue of everything that is timed: one at a time."""
SIMILARITY_NAMES = {
    "cosine": "the voice's embeddings (cosine)",
    "mel": "their sound (mel spectrum)",
    "fsq": "their FSQ digits",
    "both": "embeddings and sound, both",
}
WORDS = "Leave it empty to let the recogniser transcribe the recording. A recording that is too long is then cut at a pause."
RECOGNISED = "Recognised in the recording. Correct it where it is wrong, and run again."
LENGTH = """text => {
  const [count, most] = [[...text.trim()].length, MOST];
  const [written, allowed] = [count, most].map((number) => number.toLocaleString("en"));
  const long = count > 300 && count <= most ? `, about ${Math.round(count / 15)} s of speech` : "";
  return `<p>${written} of ${allowed} characters${long}${count > most ? "<b>: too long</b>" : ""}. HINT</p>`;
}"""
"""Counts characters as Python does, not UTF-16 halves."""
PAUSE_HINT = "[pause:1] is a second of silence."
CUT = "The recording is too long, so only its beginning is used. Leave this empty: the recogniser transcribes what is used."

R = TypeVar("R")
Handler = TypeVar("Handler", bound=Callable[..., object])


def by_name(request: type, values: Sequence[R]) -> dict[str, R]:
    """Name `values`, one for each field of the dataclass `request`, by the fields."""
    return dict(zip((f.name for f in fields(request)), values, strict=True))


def parameters_of(request: type, *states: str) -> Callable[[Handler], Handler]:
    """Name the parameters of a handler of `*values` by the fields of `request`, then by `states`."""
    names = (*(f.name for f in fields(request)), *states)

    def named(handler: Handler) -> Handler:
        handler.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
        return handler

    return named


def text_box(prefix: str, text: str = "", lines: int = 3, max_lines: int = 8, info: str | None = None) -> gr.Textbox:
    """A text box, and under it the length of the text. A limit of its own would cut a pasted text without a word."""
    box = gr.Textbox(
        text, label="Text", lines=lines, max_lines=max_lines, info=info, placeholder="English, from a word to a few pages",
        elem_id=f"{prefix}text",
    )  # fmt: skip
    said = f"<p>{len(text.strip()):,} of {MAX_CHARACTERS:,} characters. {PAUSE_HINT}</p>"
    length = gr.HTML(said, apply_default_css=False, elem_id=f"{prefix}text-length", elem_classes="lab-length")
    counting = LENGTH.replace("MOST", str(MAX_CHARACTERS)).replace("HINT", PAUSE_HINT)
    box.change(None, box, length, js=counting, queue=False, show_progress="hidden", api_visibility="private")
    return box


def voice_choice(synthesizer: Synthesizer, prefix: str, chosen: str | None = None) -> gr.Dropdown:
    voices = list(synthesizer.voice.references)
    return gr.Dropdown(voices, value=chosen if chosen in voices else voices[0], label="Voice", elem_id=f"{prefix}voice")


def own_voice(synthesizer: Synthesizer, prefix: str) -> tuple[gr.Audio, gr.Textbox, gr.Checkbox]:
    """Controls for a recording, its transcript, and the consent of its speaker."""
    low, high = synthesizer.voice.reference_seconds
    with gr.Accordion("Another voice, from a recording", open=False):
        recording = gr.Audio(
            sources=["upload", "microphone"], type="filepath", label=f"{low:g} to {high:g} seconds of one speaker",
            elem_id=f"{prefix}recording",
        )  # fmt: skip
        transcript = gr.Textbox(
            "", label="Transcript", info=WORDS, lines=2, elem_id=f"{prefix}transcript",
        )  # fmt: skip
        consent = gr.Checkbox(label="The speaker agrees to the imitation of this voice.", elem_id=f"{prefix}consent")
    return recording, transcript, consent


def recognised_update(words: str) -> object:
    """Show the recognised words of a recording; "" if it was cut: its words have to stay blank."""
    return gr.update(value=words, info=RECOGNISED if words else CUT)


def knob(name: str, settings: Settings, prefix: str, info: str, visible: bool = True, label: str | None = None) -> gr.Slider:
    """The slider of the knob `name`, at its value in `settings`."""
    allowed = bounds(name)
    # No reset button: it would move the slider without the event of a user's input.
    return gr.Slider(
        allowed.low, allowed.high, getattr(settings, name), step=allowed.step, info=info, buttons=[], visible=visible,
        label=label or name.capitalize().replace("_", "-"), elem_id=prefix + name.replace("_", "-"),
    )  # fmt: skip


def similarity_choice(
    synthesizer: Synthesizer, prefix: str, chosen: str = Settings().similarity, info: str | None = None, visible: bool = True
) -> gr.Dropdown:
    """A menu of the similarities by which tokens are grouped."""
    choices = [(SIMILARITY_NAMES[key], key) for key in synthesizer.library.similarities]
    return gr.Dropdown(
        choices, value=chosen, label="Similarity measure", info=info, visible=visible, elem_id=f"{prefix}similarity"
    )


def seed_and_dice(prefix: str, seed: int | None = 0, label: str = "Seed") -> tuple[gr.Number, gr.Button]:
    with gr.Row(elem_classes="lab-seed"):
        number = gr.Number(seed, label=label, precision=0, scale=3, elem_id=f"{prefix}seed")
        return number, gr.Button("⚄ Roll", elem_id=f"{prefix}dice", size="md", scale=1, min_width=80)


def run_and_stop(prefix: str, words: str, variant: str = "primary") -> tuple[gr.Button, gr.Button]:
    with gr.Row():
        run = gr.Button(words, variant=variant, elem_id=f"{prefix}run", scale=3)
        return run, gr.Button("Stop", elem_id=f"{prefix}stop", scale=1, min_width=80)


def queued_beside(status: gr.HTML) -> dict[str, object]:
    """Options of an event: show the place in the queue beside `status`, and queue the last press during a run."""
    return {"show_progress": "minimal", "show_progress_on": status, "trigger_mode": "always_last"}


def wire_stop(stop: gr.Button, running: Dependency, status: gr.HTML, words: str) -> None:
    """Let `stop` cancel `running` and then show `words`; the second step is queued behind the last update of the run."""
    ended = stop.click(lambda: None, None, None, cancels=running, queue=False, show_progress="hidden", api_visibility="private")
    told = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
    ended.then(lambda: message_html(words), None, status, **told)


def player(synthesizer: Synthesizer, label: str, elem_id: str, sound: str | None = None, **options: object) -> gr.Audio:
    """A player of a sound of the synthesizer."""
    waveform = gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR, sample_rate=synthesizer.voice.codec.sample_rate)
    return gr.Audio(
        sound, label=label, interactive=False, editable=False, buttons=["download"], container=False, elem_id=elem_id,
        waveform_options=waveform, **{"show_label": False, **options},
    )  # fmt: skip


def pcm(samples: np.ndarray, sample_rate: int) -> tuple[int, np.ndarray]:
    """Convert samples [N] from -1 to 1 to int16: a player scales floats to their own peak, and loudness would not compare."""
    return sample_rate, (samples.clip(-1, 1) * 32767).astype(np.int16)


def json_drawer(elem_id: str, value: object = None) -> gr.JSON:
    """A folded JSON record of the same figures."""
    with gr.Accordion("As JSON", open=False):
        return gr.JSON(value, show_label=False, elem_id=elem_id, max_height=320)
