"""The form of the Tune panel: text, voice, method, and every setting that the method uses."""

from collections.abc import Mapping

import gradio as gr
from gradio.components import Component

from explorers.errors import showing_errors
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
from explorers.shared.readout import EXPLANATIONS, TITLES, groups_html, message_html
from explorers.shared.terms import term_info
from explorers.tune.actions import TuneRequest
from pcg.settings import METHODS, RANGES, Settings
from pcg.synthesis.synthesizer import Synthesizer

SAMPLERS = {
    "plain": ("Plain", "Softmax at the temperature."),
    "ras": (
        "RAS",
        f"{term_info('ras', 'Repetition-aware')}: a token too frequent in the last 25 is drawn again.",
    ),
    "eas": ("EAS", f"{term_info('eas', 'Entropy-aware')}: tokens that recently ranked high or were chosen get a penalty."),
}
TEXT = "The quick brown fox jumps over the lazy dog."
READY = "Generate a take, then move theta or lookahead: every change generates it again."
USED_BY = {
    "theta": ("pcg",), "similarity": ("pcg",), "beta": ("ssd",), "lookahead": ("sd", "ssd", "pcg"),
    "adaptive": ("sd", "ssd", "pcg"), "temperature": METHODS,
}  # fmt: skip
INFO = {
    "theta": f"Tokens {term_info('theta', 'more similar than this')} share a {term_info('group')}. Lower: larger groups, more "
    "accepted drafts, less exact speech.",
    "lookahead": f"Tokens {term_info('lookahead', 'drafted')} before each check by the target.",
    "beta": f"Accept if {term_info('coin')} < min(1, q/p) + {term_info('beta')}. At 0 it is SD, at 1 every draft passes.",
    "temperature": f"{term_info('temperature', 'Divides the logits')} of both models: low is steady, high is lively.",
    "top_k": "Sample from this many of the likeliest tokens. 0: all, or 50 with RAS and EAS.",
    "top_p": "Sample from the likeliest tokens with this total probability. 0: all, or 0.8 with RAS and EAS.",
    "adaptive": f"{term_info('adaptive', 'Draft fewer tokens')} where the draft is uncertain.",
}


def create_form(synthesizer: Synthesizer) -> Form:
    """Lay the controls out within the Blocks that is being built."""
    settings = Settings() if Settings().method in synthesizer.methods else Settings("ar")
    with gr.Column(elem_classes="lab-form"):
        text = text_box("tune-", TEXT, lines=2, max_lines=6)
        voice = voice_choice(synthesizer, "tune-")
        recording, transcript, consent = own_voice(synthesizer, "tune-")
        method = gr.Radio(
            [(TITLES[m][0], m) for m in METHODS], value=settings.method, label="Method", info=EXPLANATIONS[settings.method],
            elem_id="tune-method",
        )  # fmt: skip
        run, stop = run_and_stop("tune-", "Generate")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="tune-status")
    with gr.Column(elem_classes="lab-form"):
        theta = _slider("theta", settings)
        groups = gr.HTML(describe_groups(synthesizer, settings.theta, settings.similarity), apply_default_css=False)
        similarity = similarity_choice(
            synthesizer, "tune-", settings.similarity, visible=settings.method in USED_BY["similarity"]
        )
        beta = _slider("beta", settings)
        lookahead = _slider("lookahead", settings)
        adaptive = gr.Checkbox(
            settings.adaptive, label="Adaptive lookahead", info=INFO["adaptive"],
            elem_id="tune-adaptive", visible=settings.method in USED_BY["adaptive"],
        )  # fmt: skip
    with gr.Column(elem_classes="lab-form"):
        temperature = _slider("temperature", settings)
        seed, dice = seed_and_dice("tune-", settings.seed, "Seed (empty: random)")
        sampling = _sampling(settings)
    inputs = [text, voice, method, theta, lookahead, beta, similarity, temperature, seed, adaptive]
    return Form(TuneRequest, [*inputs, recording, transcript, consent, *sampling], run, stop, dice, status, groups)


def _sampling(settings: Settings) -> tuple[gr.Radio, gr.Slider, gr.Slider]:
    """How draft and target sample, with every method."""
    with gr.Accordion("Sampling", open=False, elem_id="tune-sampling"):
        sampler = gr.Radio(
            [(title, name) for name, (title, _) in SAMPLERS.items()], value=settings.sampler, label="Sampler",
            info=SAMPLERS[settings.sampler][1], elem_id="tune-sampler",
        )  # fmt: skip
        return sampler, _slider("top_k", settings), _slider("top_p", settings)


def _slider(name: str, settings: Settings) -> gr.Slider:
    return knob(name, settings, "tune-", INFO[name], visible=settings.method in USED_BY.get(name, METHODS))


def describe_groups(synthesizer: Synthesizer, theta: float, similarity: str) -> str:
    with showing_errors():
        RANGES["theta"].check("theta", theta)
        return groups_html(theta, synthesizer.statistics(theta, similarity))


def shown_knobs(method: str, form: Mapping[str, Component]) -> dict[Component, object]:
    """Explain the method, and show the settings that it uses."""
    shown = {form[name]: gr.update(visible=method in users) for name, users in USED_BY.items()}
    return {form["method"]: gr.update(info=EXPLANATIONS[method]), **shown}


def explain_sampler(sampler: str) -> object:
    return gr.update(info=SAMPLERS[sampler][1]) if sampler in SAMPLERS else gr.skip()
