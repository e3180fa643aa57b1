"""The controls that several panels have: what to say, whose voice, the knobs of Settings, the seed.

The ids of a panel's controls begin with its `prefix`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import gradio as gr
from gradio.components import Component

from pcg.prompts.text import MAX_CHARACTERS
from pcg.settings import RANGES, Settings
from pcg.synthesis.synthesizer import Synthesizer


@dataclass(frozen=True)
class Desk:
    """The left-hand side of a panel that speaks. `inputs` stand in the order of `request`'s fields; groups: what theta makes,
    where the panel tells it."""

    request: type
    inputs: list[Component]
    run: gr.Button
    stop: gr.Button
    dice: gr.Button
    status: gr.HTML
    groups: gr.HTML | None = None

    @property
    def named(self) -> Mapping[str, Component]:
        return dict(zip((f.name for f in fields(self.request)), self.inputs, strict=True))


def text_box(prefix: str, text: str = "", lines: int = 3, max_lines: int = 8, info: str | None = None) -> gr.Textbox:
    return gr.Textbox(
        text, label="Text", lines=lines, max_lines=max_lines, max_length=MAX_CHARACTERS, info=info,
        placeholder="English, up to a few sentences", elem_id=f"{prefix}text",
    )  # fmt: skip


def voice_choice(synthesizer: Synthesizer, prefix: str, chosen: str | None = None) -> gr.Dropdown:
    voices = list(synthesizer.voice.references)
    return gr.Dropdown(voices, value=chosen if chosen in voices else voices[0], label="Voice", elem_id=f"{prefix}voice")


def own_voice(synthesizer: Synthesizer, prefix: str, info: str | None = None) -> tuple[gr.Audio, gr.Textbox, gr.Checkbox]:
    """A recording, what is said in it, and its speaker's consent. info: what becomes of it without the words."""
    low, high = synthesizer.voice.reference_seconds
    with gr.Accordion("Another voice, from a recording", open=False):
        recording = gr.Audio(
            sources=["upload", "microphone"], type="filepath", label=f"{low:g} to {high:g} seconds of one speaker",
            elem_id=f"{prefix}recording",
        )  # fmt: skip
        transcript = gr.Textbox(
            "", label="What is said in it", info=info, lines=2, max_length=MAX_CHARACTERS, elem_id=f"{prefix}transcript"
        )
        consent = gr.Checkbox(label="Its speaker agrees to have this voice imitated.", elem_id=f"{prefix}consent")
    return recording, transcript, consent


def knob(name: str, settings: Settings, prefix: str, info: str, visible: bool = True, label: str | None = None) -> gr.Slider:
    """The slider of the knob `name`, as it stands in `settings`."""
    allowed = RANGES[name]
    # No reset button: it would move the knob without telling that a person did.
    return gr.Slider(
        allowed.low, allowed.high, getattr(settings, name), step=allowed.step, info=info, buttons=[], visible=visible,
        label=label or name.capitalize().replace("_", "-"), elem_id=prefix + name.replace("_", "-"),
    )  # fmt: skip


def seed_and_dice(prefix: str, seed: int | None = 0, label: str = "Seed") -> tuple[gr.Number, gr.Button]:
    with gr.Row(elem_classes="lab-seed"):
        number = gr.Number(seed, label=label, precision=0, scale=3, elem_id=f"{prefix}seed")
        return number, gr.Button("⚄ Roll", elem_id=f"{prefix}dice", size="md", scale=1, min_width=80)


def run_and_stop(prefix: str, words: str) -> tuple[gr.Button, gr.Button]:
    with gr.Row():
        run = gr.Button(words, variant="primary", elem_id=f"{prefix}run", scale=3)
        return run, gr.Button("Stop", elem_id=f"{prefix}stop", scale=1, min_width=80)
