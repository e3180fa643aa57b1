"""The form of the Compare panel: text, voice and settings."""

from collections.abc import Sequence

import gradio as gr

from explorers.errors import showing_errors
from explorers.listen.actions import RECORDING, TAKES, CompareRequest, preset_value, read_preset
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
from explorers.shared.terms import explained
from pcg.settings import Settings, choices
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS, Preset, read_presets

RERUNS = "Re-runs {}."
RECORDING_USED = "Clear the recording below to choose a voice."
KNOBS = {
    "theta": explained("theta", RERUNS.format("PCG")),
    "lookahead": explained("lookahead", RERUNS.format("the method that you hear")),
    "beta": explained("beta", RERUNS.format("SSD")),
    "temperature": explained("temperature", RERUNS.format("the method that you hear")),
    "adaptive": explained("adaptive"),
    "lookahead_cost": explained("lookahead-cost", "0: fixed lookahead."),
    "verification": explained("verification", "SSD verifies token by token."),
    "top_k": "Sample from this many of the likeliest tokens. 0: all, or 50 with RAS and EAS.",
    "top_p": "Sample from the likeliest tokens with this total probability. 0: all, or 0.8 with RAS and EAS.",
}
SAMPLERS = {
    "plain": ("Plain", "Softmax at the temperature."),
    "ras": ("RAS", explained("ras")),
    "eas": ("EAS", explained("eas")),
}


def create_form(synthesizer: Synthesizer, shown: TakeView | None, status: str) -> Form:
    """Lay the controls out, with the settings of the take that is `shown`; `status` is the first message."""
    settings = shown.settings if shown else Settings()
    with gr.Column(elem_classes="lab-form", elem_id="ask"):
        text = text_box("", shown.text if shown else "")
        voice = voice_choice(synthesizer, "", shown.voice if shown else None)
        own = own_voice(synthesizer, "")
        run, stop = run_and_stop("", "Generate")
        message = gr.HTML(message_html(status), apply_default_css=False, elem_id="status")
    with gr.Accordion("Decoding settings", open=True, elem_id="knobs", elem_classes="lab-form"):
        theta = knob("theta", settings, "", KNOBS["theta"])
        # Told when the page has loaded: computing groups would hold up the start of the server.
        groups = gr.HTML('<p class="groups">…</p>', apply_default_css=False, elem_id="groups")
        lookahead, beta, temperature = (knob(name, settings, "", KNOBS[name]) for name in ("lookahead", "beta", "temperature"))
        seed, dice = seed_and_dice("", settings.seed)
        with gr.Accordion("More settings", open=False, elem_id="more-settings"):
            similarity = similarity_choice(synthesizer, "", settings.similarity, RERUNS.format("PCG"))
            takes, preset = _more()
            adaptive = gr.Checkbox(settings.adaptive, label="Adaptive lookahead", info=KNOBS["adaptive"], elem_id="adaptive")
            cost = knob("lookahead_cost", settings, "", KNOBS["lookahead_cost"], label="Lookahead cost")
            verification = gr.Radio(
                choices("verification"), value=settings.verification, label="Verification", info=KNOBS["verification"],
                elem_id="verification",
            )  # fmt: skip
            sampling = _sampling(settings)
    inputs = [text, voice, theta, lookahead, beta, temperature, seed, *own, similarity, takes, preset, adaptive, *sampling]
    return Form(CompareRequest, [*inputs, verification, cost], run, stop, dice, message, groups)


def _sampling(settings: Settings) -> tuple[gr.Radio, gr.Slider, gr.Slider]:
    """How draft and target sample, with every method."""
    sampler = gr.Radio(
        [(title, name) for name, (title, _) in SAMPLERS.items()], value=settings.sampler, label="Sampling",
        info=SAMPLERS[settings.sampler][1], elem_id="sampler",
    )  # fmt: skip
    sampler.input(
        lambda name: gr.update(info=SAMPLERS[name][1]) if name in SAMPLERS else gr.skip(), sampler, sampler,
        queue=False, show_progress="hidden", api_visibility="private",
    )  # fmt: skip
    return sampler, *(knob(name, settings, "", KNOBS[name]) for name in ("top_k", "top_p"))


def voice_update(voices: Sequence[str], recording: str | None) -> dict[str, object]:
    """What the menu of `voices` shows beside a `recording`, or without one. Every voice goes by its name then, so that the menu
    keeps its choice, and may be given another one meanwhile."""
    choices = [(RECORDING, voice) for voice in voices] if recording else list(voices)
    return gr.update(choices=choices, interactive=not recording, info=RECORDING_USED if recording else "")


def offer_presets(page: gr.Blocks, own: gr.BrowserState, chosen: gr.Dropdown) -> None:
    """Let `chosen`, the control of CompareRequest.preset, offer a visitor's `own` presets, too, which the browser holds. The
    preset of the name that is chosen stays chosen, as it is stored now; where it is gone, none is."""

    def offered(values: object, now: object) -> dict[str, object]:
        choices = _choices(read_presets(values))
        with showing_errors():
            preset = read_preset(now)
        return gr.update(choices=choices, value=dict(choices).get(preset.name, "") if preset else "")

    gr.on(
        [page.load, own.change], offered, [own, chosen], chosen, queue=False, show_progress="hidden", api_visibility="private"
    )


def _more() -> tuple[gr.Slider, gr.Dropdown]:
    takes = gr.Slider(
        TAKES.low, TAKES.high, 1, step=TAKES.step, label="Takes per method", buttons=[], elem_id="takes",
        info="The first take has the seed above, each further one the next seed.",
    )  # fmt: skip
    preset = gr.Dropdown(
        _choices(()), value="", label="Fifth lane: a preset", filterable=False, elem_id="compare-preset",
        info="Settings of a paper, or your own from Settings below; the seed is kept.",
    )  # fmt: skip
    return takes, preset


def _choices(own: Sequence[Preset]) -> list[tuple[str, str]]:
    return [("none", ""), *((preset.name, preset_value(preset)) for preset in (*PAPERS, *own))]
