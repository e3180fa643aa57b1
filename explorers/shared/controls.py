"""Controls that several panels have, and how they share their values. The ids of a panel's controls begin with its `prefix`."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import TypeVar

import gradio as gr
import numpy as np
from gradio.components import Component
from gradio.events import Dependency

from explorers.colours import SOUND_COLOUR, WAVE_COLOUR
from explorers.shared.readout import message_html
from explorers.shared.terms import TERMS, term_info
from pcg.settings import SIMILARITIES, Settings, bounds, choices, is_numeric
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS

DECODING = "decoding"
"""The queue of everything that is timed: one at a time."""
PRIVATE = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Options of an event that changes the page alone."""
SIMILARITY_NAMES = {"cosine": "embedding (cosine)", "mel": "sound (mel)"}
LENGTH = """text => {
  const [count, most] = [[...text.trim()].length, MOST];
  const [written, allowed] = [count, most].map((number) => number.toLocaleString("en"));
  const long = count > 300 && count <= most ? `, about ${Math.round(count / 15)} s of speech` : "";
  return `<p>${written} of ${allowed} characters${long}${count > most ? "<b>: too long</b>" : ""}. HINT</p>`;
}"""
"""Counts characters as Python does, not UTF-16 halves."""
PAUSE_HINT = "[pause:1] is a second of silence."

Handler = TypeVar("Handler", bound=Callable[..., object])


def with_parameters(*names: str) -> Callable[[Handler], Handler]:
    """Name the parameters of a handler of `*values`, as the documentation of its endpoint shows them."""

    def named(handler: Handler) -> Handler:
        handler.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
        return handler

    return named


def event_values(event: gr.EventData) -> Mapping[str, object]:
    """Return what a script of the page sent with its event."""
    return event._data if isinstance(event._data, dict) else {}


def text_box(text: str = "") -> gr.Textbox:
    """Return a text box, and under it the length of the text. A limit of its own would cut a pasted text without a word."""
    box = gr.Textbox(
        text, label="Text", lines=2, max_lines=8, placeholder="English, from a word to a few pages", elem_id="text"
    )
    counted = f"<p>{len(text.strip()):,} of {MAX_CHARACTERS:,} characters. {PAUSE_HINT}</p>"
    length = gr.HTML(counted, apply_default_css=False, elem_id="text-length", elem_classes="lab-length")
    box.change(None, box, length, js=LENGTH.replace("MOST", str(MAX_CHARACTERS)).replace("HINT", PAUSE_HINT), **PRIVATE)
    return box


def setting(name: str, prefix: str = "", settings: Settings | None = None, **options: object) -> Component:
    """Return the control of a setting, made from its field in `Settings`."""
    key, field, value = name.replace("_", "-"), Settings.model_fields[name], getattr(settings or Settings(), name)
    info = f"{field.description} {term_info(key, 'Equation')}" if key in TERMS else field.description
    shown = {"label": name.replace("_", " ").capitalize(), "info": info, "elem_id": prefix + key, **options}
    if name == "similarity":
        return gr.Dropdown([(SIMILARITY_NAMES[key], key) for key in SIMILARITIES], value=value, **shown)
    if choices(name):
        return gr.Radio(choices(name), value=value, **shown)
    if not is_numeric(name):
        return gr.Checkbox(value, **shown)
    low, high, step = bounds(name)
    if name == "seed":
        return gr.Number(value, precision=0, minimum=low, maximum=high, **shown)
    # No reset button: it would move the slider without the event of a user's input.
    return gr.Slider(low, high, value, step=step, buttons=[], **shown)


def run_and_stop(prefix: str, words: str, variant: str = "primary") -> tuple[gr.Button, gr.Button]:
    with gr.Row():
        run = gr.Button(words, variant=variant, elem_id=f"{prefix}run", scale=3)
        return run, gr.Button("Stop", elem_id=f"{prefix}stop", scale=1, min_width=80)


def queued_beside(status: gr.HTML) -> dict[str, object]:
    """Options of an event that waits for all decoding: its place in the queue stands beside `status`."""
    shown = {"show_progress": "minimal", "show_progress_on": status, "trigger_mode": "always_last"}
    return {"concurrency_id": DECODING, "concurrency_limit": 1, **shown}


def wire_stop(stop: gr.Button, running: Dependency, status: gr.HTML, words: str) -> None:
    """Let `stop` cancel `running` and then show `words`; the second step is queued behind the last update of the run."""
    ended = stop.click(lambda: None, None, None, cancels=running, **PRIVATE)
    ended.then(lambda: message_html(words), None, status, **PRIVATE | {"queue": True, "concurrency_limit": None})


def player(synthesizer: Synthesizer, label: str, elem_id: str, **options: object) -> gr.Audio:
    """Return a player of a sound of the synthesizer."""
    waveform = gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR, sample_rate=synthesizer.voice.codec.sample_rate)
    return gr.Audio(
        label=label, interactive=False, editable=False, buttons=["download"], container=False, elem_id=elem_id,
        waveform_options=waveform, show_label=False, **options,
    )  # fmt: skip


def pcm(samples: np.ndarray, sample_rate: int) -> tuple[int, np.ndarray] | None:
    """Convert samples [N] from -1 to 1 to int16, None without any: a player scales floats to their own peak."""
    return (sample_rate, (samples.clip(-1, 1) * 32767).astype(np.int16)) if len(samples) else None
