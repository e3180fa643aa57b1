"""The form of the listening test: design, systems, texts and settings, and the settings that a visitor keeps."""

from dataclasses import dataclass

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

from explorers.errors import showing_errors
from explorers.listen.actions import new_seed
from explorers.listening.actions import MOST_ASKED, MOST_LINES, Kept, ListeningRequest, keep, last_settings
from explorers.listening.link import choices
from explorers.session import Session
from explorers.shared.blocks import by_name, knob, run_and_stop, seed_and_dice, similarity_choice, voice_choice
from explorers.shared.readout import message_html
from explorers.shared.terms import explained
from pcg.presets import PAPERS, read_presets
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer

DESIGN_NAMES = {"ab": "A/B: which is better", "abx": "ABX: which one is X", "rating": "Rating, 0 to 100"}
SOURCE_NAMES = {"evaluation": "evaluation sentences", "own": "own lines"}
TRIALS = 6
READY = "Choose what to compare, then prepare the test."


@dataclass(frozen=True)
class ListeningControls:
    """The left-hand side. `inputs` are in the order of ListeningRequest; `kept` holds settings by name."""

    inputs: list[Component]
    rating: gr.Column
    own: gr.Column
    run: gr.Button
    stop: gr.Button
    dice: gr.Button
    status: gr.HTML
    keep: gr.Button
    keep_last: gr.Button
    kept: gr.State

    @property
    def named(self) -> dict[str, Component]:
        return by_name(ListeningRequest, self.inputs)


def create_controls(synthesizer: Synthesizer) -> ListeningControls:
    """Lay the controls out within the Blocks that is being built."""
    with gr.Column(elem_classes="lab-form"):
        design = gr.Radio([(n, k) for k, n in DESIGN_NAMES.items()], value="ab", label="Question", elem_id="listening-design")
        compared = gr.Dropdown(
            [method.upper() for method in METHODS], value=["AR", "PCG"], multiselect=True, label="Compare",
            info="Methods at the settings below, presets, and stored settings.", elem_id="listening-compared",
        )  # fmt: skip
        with gr.Column(visible=False, elem_classes="lab-form-part") as rating:
            reference = gr.Dropdown(
                [method.upper() for method in METHODS], value="AR", label="Reference", elem_id="listening-reference",
                info="Played openly, and also hidden among the others.",
            )  # fmt: skip
            anchor = gr.Checkbox(label="Anchor: the reference, low-pass filtered at 3.5 kHz", elem_id="listening-anchor")
        source = gr.Radio(
            [(n, k) for k, n in SOURCE_NAMES.items()], value="evaluation", label="Texts", elem_id="listening-source"
        )
        with gr.Column(visible=False, elem_classes="lab-form-part") as own:
            lines = gr.Textbox(
                label="Own lines", lines=4, max_lines=10, elem_id="listening-lines",
                info=f"One text per line, up to {MOST_LINES}, each at most about ten seconds of speech.",
            )  # fmt: skip
        trials = gr.Slider(1, MOST_ASKED, TRIALS, step=1, label="Trials", buttons=[], elem_id="listening-trials")
        run, stop = run_and_stop("listening-", "Prepare the test")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="listening-status")
    voice, knobs, seed, dice, similarity, keep_these, keep_last = _settings(synthesizer)
    inputs = [design, compared, reference, anchor, source, lines, trials, voice, *knobs, seed, similarity]
    return ListeningControls(inputs, rating, own, run, stop, dice, status, keep_these, keep_last, gr.State({}))


def _settings(
    synthesizer: Synthesizer,
) -> tuple[gr.Dropdown, list[gr.Slider], gr.Number, gr.Button, gr.Dropdown, gr.Button, gr.Button]:
    usual = Settings()
    with gr.Column(elem_classes="lab-form"):
        voice = voice_choice(synthesizer, "listening-")
        seed, dice = seed_and_dice("listening-", usual.seed, "Seed of the test")
        with gr.Accordion("Settings of the methods", open=False):
            names = {"theta": "Theta", "lookahead": "Lookahead, tokens", "beta": "Beta", "temperature": "Temperature"}
            knobs = [knob(name, usual, "listening-", explained(name), label=label) for name, label in names.items()]
            similarity = similarity_choice(synthesizer, "listening-")
            with gr.Row():
                keep_these = gr.Button("Store PCG settings", size="md", elem_id="listening-keep", min_width=120)
                keep_last = gr.Button(
                    "Store settings of the last takes", size="md", elem_id="listening-keep-last", min_width=120
                )
    return voice, knobs, seed, dice, similarity, keep_these, keep_last


def wire_choices(controls: ListeningControls, session: gr.State) -> None:
    """What is shown for a design, and which settings are kept; `session` holds a Session."""
    named, quiet = controls.named, {"show_progress": "hidden", "api_visibility": "private", "queue": False}
    named["design"].input(lambda design: gr.update(visible=design == "rating"), named["design"], controls.rating, **quiet)
    named["source"].input(lambda source: gr.update(visible=source == "own"), named["source"], controls.own, **quiet)
    controls.dice.click(new_seed, None, named["seed"], **quiet)
    knobs = [named[knob] for knob in ("theta", "lookahead", "beta", "temperature", "similarity")]
    choosing = [controls.kept, named["compared"], named["reference"]]

    def kept_with(kept: Kept, settings: list[Settings]) -> list[object]:
        return _choosing(keep(kept, settings))

    def keep_these(theta: float, lookahead: int, beta: float, temperature: float, similarity: str, kept: Kept) -> list[object]:
        with showing_errors():
            return kept_with(kept, [Settings("pcg", theta, lookahead, beta, temperature, similarity=similarity)])

    def keep_last(session: Session, kept: Kept) -> list[object]:
        with showing_errors():
            return kept_with(kept, last_settings(session))

    controls.keep.click(
        keep_these, [*knobs, controls.kept], choosing, show_progress="hidden", api_name="listening_keep",
        api_description="Store PCG's settings at these values under a name, by which a listening test can compare them.",
    )  # fmt: skip
    controls.keep_last.click(
        keep_last, [session, controls.kept], choosing, show_progress="hidden", api_name="listening_keep_last",
        api_description="Store the settings of this session's takes under names, by which a listening test can compare them.",
    )  # fmt: skip


def offer_presets(opened: Dependency, own: gr.BrowserState, controls: ListeningControls) -> None:
    """Let a test compare the papers' presets and a visitor's `own`, which the browser holds. opened: what has run when the page
    knows whether it was opened by the link of a test."""
    choosing = [controls.kept, controls.named["compared"], controls.named["reference"]]

    def offer(values: object, kept: Kept) -> list[object]:
        return _choosing({**kept, **{preset.name: preset.settings for preset in (*PAPERS, *read_presets(values))}})

    quiet = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    for event in (opened.then, own.change):
        event(offer, [own, controls.kept], choosing, **quiet)


def _choosing(kept: Kept) -> list[object]:
    """What is stored, and the choices of what is compared and of the reference."""
    return [dict(kept), gr.update(choices=choices(kept)), gr.update(choices=choices(kept))]
