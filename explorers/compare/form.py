"""The form of the Compare panel: text, voice and settings."""

from collections.abc import Sequence

import gradio as gr

from explorers.compare.actions import TAKES, CompareRequest, describe_groups, preset_value
from explorers.session import TakeView
from explorers.shared.blocks import (
    Form,
    knob,
    own_voice,
    run_and_stop,
    seed_and_dice,
    similarity_choice,
    text_box,
    voice_choice,
)
from explorers.shared.readout import message_html
from explorers.shared.terms import term_info
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS, Preset, read_presets

KNOBS = {
    "theta": f"{term_info('theta', 'Similarity')} above which tokens share a {term_info('group')}. Lower: larger groups, more "
    "accepted drafts, less exact speech. A change generates PCG again.",
    "lookahead": f"Tokens that the small model {term_info('lookahead', 'drafts')} before each check. A change generates PCG "
    "again.",
    "beta": f"{term_info('beta', 'Tolerance')} of SSD: at 0 it equals SD, at 1 it accepts every draft. A change generates SSD "
    "again.",
    "temperature": f"{term_info('temperature', 'Randomness')} of both models: low is steady, high is lively.",
}


def create_form(synthesizer: Synthesizer, shown: TakeView | None, status: str) -> Form:
    """Lay the controls out, with the settings of the take that is `shown`; `status` is the first message."""
    settings = shown.settings if shown else Settings()
    with gr.Column(elem_classes="lab-form"):
        text = text_box("", shown.text if shown else "")
        voice = voice_choice(synthesizer, "", shown.voice if shown else None)
        own = own_voice(synthesizer, "")
        run, stop = run_and_stop("", "Compare all four")
        message = gr.HTML(message_html(status), apply_default_css=False, elem_id="status")
    with gr.Column(elem_classes="lab-form"):
        theta = knob("theta", settings, "", KNOBS["theta"])
        about = describe_groups(synthesizer, settings.theta, settings.similarity)
        groups = gr.HTML(about, apply_default_css=False, elem_id="groups")
        similarity = similarity_choice(synthesizer, "", settings.similarity, "A change generates PCG again.")
        lookahead, beta = (knob(name, settings, "", KNOBS[name]) for name in ("lookahead", "beta"))
    with gr.Column(elem_classes="lab-form"):
        temperature = knob("temperature", settings, "", KNOBS["temperature"])
        seed, dice = seed_and_dice("", settings.seed)
        takes, preset = _more()
    inputs = [text, voice, theta, lookahead, beta, temperature, seed, *own, similarity, takes, preset]
    return Form(CompareRequest, inputs, run, stop, dice, message, groups)


def offer_presets(page: gr.Blocks, own: gr.BrowserState, chosen: gr.Dropdown) -> None:
    """Let `chosen`, the control of CompareRequest.preset, offer a visitor's `own` presets, too, which the browser holds."""
    gr.on(
        [page.load, own.change], lambda values: gr.update(choices=_choices(read_presets(values))), own, chosen,
        queue=False, show_progress="hidden", api_visibility="private",
    )  # fmt: skip


def _more() -> tuple[gr.Slider, gr.Dropdown]:
    takes = gr.Slider(
        TAKES.low, TAKES.high, 1, step=TAKES.step, label="Takes per method", buttons=[], elem_id="takes",
        info="At consecutive seeds from this one.",
    )  # fmt: skip
    preset = gr.Dropdown(
        _choices(()), value="", label="Fifth card: a preset", filterable=False, elem_id="compare-preset",
        info="Settings of a paper, or your own from Settings below; the seed is kept.",
    )  # fmt: skip
    return takes, preset


def _choices(own: Sequence[Preset]) -> list[tuple[str, str]]:
    return [("none", ""), *((preset.name, preset_value(preset)) for preset in (*PAPERS, *own))]
