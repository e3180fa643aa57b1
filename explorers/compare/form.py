"""The left-hand side of the Compare panel: what to say, in whose voice, and every knob."""

from collections.abc import Sequence

import gradio as gr

from explorers.compare.actions import TAKES, Request, describe_groups, preset_value
from explorers.groups.layout import SIMILARITY_NAMES
from explorers.session import Reading
from explorers.shared.controls import Desk, knob, own_voice, run_and_stop, seed_and_dice, text_box, voice_choice
from explorers.shared.readout import message_html
from explorers.shared.terms import term_info
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS, Preset, read_presets

KNOBS = {
    "theta": f"How {term_info('theta', 'alike')} tokens must be to share a {term_info('group')}. Lower: larger groups, more "
    "guesses pass, looser speech. Moving it says PCG again.",
    "lookahead": f"Tokens the small model {term_info('lookahead', 'guesses')} before each check. Moving it says PCG again.",
    "beta": f"How {term_info('beta', 'lenient')} SSD is: at 0 it is SD, at 1 every guess passes. Moving it says SSD again.",
    "temperature": f"How {term_info('temperature', 'freely')} both models choose: low is steady, high is lively.",
}
WORDS = "Leave it empty, and the recogniser writes down what it understands."


def create_desk(synthesizer: Synthesizer, shown: Reading | None, status: str) -> Desk:
    """Lay the controls out, as they stood for the take that is `shown`; `status` is what the page says first."""
    settings = shown.settings if shown else Settings()
    with gr.Column(elem_classes="lab-desk"):
        text = text_box("", shown.text if shown else "")
        voice = voice_choice(synthesizer, "", shown.voice if shown else None)
        own = own_voice(synthesizer, "", WORDS)
        run, stop = run_and_stop("", "Say it four ways")
        told = gr.HTML(message_html(status), apply_default_css=False, elem_id="status")
    with gr.Column(elem_classes="lab-desk"):
        theta = knob("theta", settings, "", KNOBS["theta"])
        about = describe_groups(synthesizer, settings.theta, settings.similarity)
        groups = gr.HTML(about, apply_default_css=False, elem_id="groups")
        similarity = gr.Dropdown(
            [(SIMILARITY_NAMES[key], key) for key in synthesizer.library.similarities], value=settings.similarity,
            label="Alike by", info="Choosing another says PCG again.", elem_id="similarity",
        )  # fmt: skip
        lookahead, beta = (knob(name, settings, "", KNOBS[name]) for name in ("lookahead", "beta"))
    with gr.Column(elem_classes="lab-desk"):
        temperature = knob("temperature", settings, "", KNOBS["temperature"])
        seed, dice = seed_and_dice("", settings.seed)
        takes, preset = _more()
    inputs = [text, voice, theta, lookahead, beta, temperature, seed, *own, similarity, takes, preset]
    return Desk(Request, inputs, run, stop, dice, told, groups)


def offer_presets(page: gr.Blocks, own: gr.BrowserState, chosen: gr.Dropdown) -> None:
    """Let `chosen`, the control of Request.preset, offer a visitor's `own` presets, too, which `page`'s browser holds."""
    gr.on(
        [page.load, own.change], lambda values: gr.update(choices=_choices(read_presets(values))), own, chosen,
        queue=False, show_progress="hidden", api_visibility="private",
    )  # fmt: skip


def _more() -> tuple[gr.Slider, gr.Dropdown]:
    takes = gr.Slider(
        TAKES.low, TAKES.high, 1, step=TAKES.step, label="Takes of each", buttons=[], elem_id="takes",
        info="At this seed and those that follow it.",
    )  # fmt: skip
    preset = gr.Dropdown(
        _choices(()), value="", label="Fifth card: a preset", filterable=False, elem_id="compare-preset",
        info="The papers' settings, or your own from Settings below; the seed stays.",
    )  # fmt: skip
    return takes, preset


def _choices(own: Sequence[Preset]) -> list[tuple[str, str]]:
    return [("none", ""), *((preset.name, preset_value(preset)) for preset in (*PAPERS, *own))]
