"""Swap: whether the members of a group may stand for each other, heard and judged in one utterance."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.compare.actions import new_seed
from explorers.compare.layout import DECODING
from explorers.errors import telling, told
from explorers.groups.actions import equal_theta
from explorers.groups.layout import SIMILARITY_NAMES
from explorers.session import Session
from explorers.shared.controls import knob, seed_and_dice, text_box, voice_choice
from explorers.shared.readout import message_html
from explorers.shared.terms import term_info
from explorers.swap.actions import (
    NOTE,
    THETAS,
    UTTERANCES,
    VERSIONS,
    Campaign,
    Ears,
    Request,
    Stress,
    Version,
    campaign,
    stress,
    swap_grid,
)
from explorers.swap.figures import (
    campaign_html,
    heard_html,
    legend_html,
    mels_figure,
    original_html,
    progress_html,
    strip_html,
    table_html,
    title_html,
)
from explorers.theme import SOUND_COLOUR, WAVE_COLOUR
from explorers.zero_gpu import LONGEST_SECONDS, on_gpu
from pcg.errors import PCGError
from pcg.experiments.store import Store
from pcg.experiments.worker import WorkerSpec
from pcg.settings import Settings
from pcg.synthesis.synthesizer import CACHE, Synthesizer

HEADING = """<header class="title"><h2>Swap<small>the stress test of the groups</small></h2>
<p>Every token that has company in its group gives way to another member, whatever the target thinks of it (PCG section 4,
Table 2). If the groups are what the paper says, little is lost; the control shows how much could be.</p></header>"""
MANY_HEADING = f"""<header class="title"><h2>Over many utterances<small>the paper's Table 2, on this voice</small></h2>
<p>{UTTERANCES} sentences, said by the target, swapped at the sizes of cosine groups at theta {", ".join(map(str, THETAS))},
each with its control. What was done once is kept, and not done again.</p></header>"""
SOURCE_NAMES = {"last": "the last utterance", "text": "a new text"}
CONTROL_NAMES = {
    "random": "any codes at the same places",
    "mel": "Mel groups of equal mean size",
    "none": "none",
}
READY = "Choose theta, then swap."
THETA_INFO = (
    f"How {term_info('theta', 'alike')} tokens must be to share a {term_info('group')}. Lower: larger groups, a harder test."
)
FRACTION_INFO = f"Of the tokens in company, how many are {term_info('swapped')}: more keeps what fewer did."
MANY_EMPTY = f"Press “Swap {UTTERANCES} sentences”, and the table fills here row by row."
MANY_READY = "Some fifty units, each of a second or two of work."
STOPPED = "Stopped. Finished utterances stay."
FAILED = "That did not work. Everything on the page is as it was."


@dataclass(frozen=True)
class Controls:
    """The left-hand side. `inputs` stand in the order of Request; `new` holds those of a new text."""

    inputs: list[Component]
    new: gr.Column
    run: gr.Button
    dice: gr.Button
    status: gr.HTML

    @property
    def named(self) -> dict[str, Component]:
        return dict(zip((f.name for f in fields(Request)), self.inputs, strict=True))


@dataclass(frozen=True)
class ManyControls:
    """What a run over many utterances reads."""

    run: gr.Button
    stop: gr.Button
    status: gr.HTML


@dataclass(frozen=True)
class VersionView:
    """The places of one version on the page."""

    card: gr.Column
    title: gr.HTML
    sound: gr.Audio
    strip: gr.HTML
    heard: gr.HTML

    @property
    def all(self) -> list[Component | gr.Column]:
        return [self.card, self.title, self.sound, self.strip, self.heard]


@dataclass(frozen=True)
class Places:
    """The right-hand side."""

    said: gr.HTML
    table: gr.HTML
    mels: gr.Plot
    record: gr.JSON
    views: dict[str, VersionView]

    @property
    def all(self) -> list[Component | gr.Column]:
        return [self.record, self.said, self.table, self.mels, *(place for view in self.views.values() for place in view.all)]


def create_swap(synthesizer: Synthesizer, spec: WorkerSpec, session: gr.State, results: Path = CACHE) -> None:
    """Lay the panel out within the Blocks that is being built. `spec` says by its judge who writes down words, and who works on
    many utterances; nothing of it is loaded before it is needed. `session` holds a Session, whose last utterance may be
    swapped; the folder `results` keeps the units of many utterances."""
    ears = lru_cache(maxsize=1)(lambda: Ears.load(spec.judge, spec.device))
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer)
            many = _many_controls()
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            places = _places(synthesizer)
            with gr.Column(elem_classes="lab-card"):
                gr.HTML(MANY_HEADING, apply_default_css=False)
                table = gr.HTML(message_html(MANY_EMPTY), apply_default_css=False, elem_id="swap-many-table")
    _wire(synthesizer, ears, controls, places, session)
    _wire_many(_campaigner(synthesizer, spec, Store(results)), many, controls.named["similarity"], table)


def _controls(synthesizer: Synthesizer) -> Controls:
    with gr.Column(elem_classes="lab-desk"):
        source = gr.Radio([(n, k) for k, n in SOURCE_NAMES.items()], value="last", label="Utterance", elem_id="swap-source")
        with gr.Column(visible=False) as new:
            text = text_box("swap-", info="The target says it alone.")
            voice = voice_choice(synthesizer, "swap-")
        run = gr.Button("Swap", variant="primary", elem_id="swap-run")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="swap-status")
    with gr.Column(elem_classes="lab-desk"):
        theta, similarity, fraction = _groups_of(synthesizer)
        control = gr.Radio(
            [(n, k) for k, n in CONTROL_NAMES.items()], value="random", label="Control", elem_id="swap-control",
            info="What the swap is compared with.",
        )  # fmt: skip
        seed, dice = seed_and_dice("swap-", Settings.seed)
    return Controls([source, text, voice, theta, similarity, fraction, control, seed], new, run, dice, status)


def _many_controls() -> ManyControls:
    with gr.Column(elem_classes="lab-desk"):
        with gr.Row():
            run = gr.Button(f"Swap {UTTERANCES} sentences", elem_id="swap-many-run", scale=3)
            stop = gr.Button("Stop", elem_id="swap-many-stop", scale=1, min_width=80)
        status = gr.HTML(message_html(MANY_READY), apply_default_css=False, elem_id="swap-many-status")
    return ManyControls(run, stop, status)


def _groups_of(synthesizer: Synthesizer) -> tuple[gr.Slider, gr.Dropdown, gr.Slider]:
    """What is swapped."""
    theta = knob("theta", Settings(), "swap-", THETA_INFO)
    similarity = gr.Dropdown(
        [(SIMILARITY_NAMES[key], key) for key in synthesizer.library.similarities], value=Settings.similarity,
        label="Alike by", info="Choosing another moves theta to groups of the same mean size.", elem_id="swap-similarity",
    )  # fmt: skip
    fraction = gr.Slider(
        0, 1, 1, step=0.05, label="Fraction", buttons=[], elem_id="swap-fraction",
        info=FRACTION_INFO,
    )  # fmt: skip
    return theta, similarity, fraction


def _places(synthesizer: Synthesizer) -> Places:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        said = gr.HTML("", apply_default_css=False, elem_id="swap-said")
        gr.HTML(legend_html(), apply_default_css=False)
    with gr.Row(equal_height=True, elem_classes="lab-pair"):
        views = {name: _view(synthesizer, name) for name in VERSIONS}
    with gr.Column(elem_classes="lab-card"):
        table = gr.HTML(message_html(NOTE), apply_default_css=False, elem_id="swap-table")
        mels = gr.Plot(show_label=False, visible=False, elem_id="swap-mels")
        with gr.Accordion("As JSON", open=False):
            record = gr.JSON(show_label=False, elem_id="swap-record", max_height=320)
    return Places(said, table, mels, record, views)


def _view(synthesizer: Synthesizer, name: str) -> VersionView:
    with gr.Column(min_width=300, elem_classes="lab-card", elem_id=f"swap-{name}") as card:
        title = gr.HTML(title_html(name), apply_default_css=False)
        sound = gr.Audio(
            label=name.capitalize(), show_label=False, interactive=False, editable=False, buttons=["download"],
            container=False, elem_id=f"swap-sound-{name}",
            waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR, sample_rate=synthesizer.voice.codec.sample_rate),
        )  # fmt: skip
        strip = gr.HTML("", apply_default_css=False, elem_id=f"swap-strip-{name}")
        heard = gr.HTML("", apply_default_css=False, elem_id=f"swap-heard-{name}")
    return VersionView(card, title, sound, strip, heard)


def _handler(synthesizer: Synthesizer, ears: Callable[[], Ears]) -> Callable[..., Iterator[list[object]]]:
    """`stress` as gradio calls it: one argument a control, one update a place on the page."""

    def handle(
        source: str,
        text: str,
        voice: str,
        theta: float,
        similarity: str,
        fraction: float,
        control: str,
        seed: int,
        session: Session,
    ) -> Iterator[list[object]]:
        try:
            request = Request(source, text, voice, theta, similarity, fraction, control, seed)
            with closing(stress(synthesizer, ears, request, session)) as steps:
                for step in steps:
                    yield _updates(step)
        except PCGError as error:
            yield [*[gr.skip()] * (4 + 5 * len(VERSIONS)), message_html(FAILED)]
            raise told(error) from error

    return handle


def _campaigner(synthesizer: Synthesizer, spec: WorkerSpec, store: Store) -> Callable[[str], Iterator[list[object]]]:
    def run(similarity: str) -> Iterator[list[object]]:
        shown: Campaign | None = None
        try:
            with closing(campaign(synthesizer, swap_grid(synthesizer, similarity), spec, store)) as steps:
                for step in steps:
                    new = shown is None or step.table is not shown.table
                    yield [campaign_html(step) if new else gr.skip(), progress_html(step)]
                    shown = step
        except PCGError as error:
            yield [gr.skip(), message_html(FAILED)]
            raise told(error) from error

    return run


def _updates(step: Stress) -> list[object]:
    """The record, who said what, table, pictures, every version's places, and the status."""
    said = original_html(step) if step.original else gr.skip()
    if not step.versions:
        return [gr.skip(), said, *[gr.skip()] * (2 + 5 * len(VERSIONS)), message_html(step.now)]
    versions = {version.name: version for version in step.versions}
    cards = [update for name in VERSIONS for update in _card(name, versions.get(name), fresh=bool(step.now))]
    picture = gr.update(value=mels_figure(step), visible=True) if step.now else gr.skip()
    return [step.record(), said, table_html(step), picture, *cards, message_html(step.now or "Swapped.")]


def _card(name: str, version: Version | None, fresh: bool) -> list[object]:
    """fresh: its sound is new; the verdict alone comes later."""
    if version is None:
        return [gr.update(visible=False), title_html(name), None, "", ""]
    if not fresh:
        return [*[gr.skip()] * 4, heard_html(version)]
    return [gr.update(visible=True), title_html(name, version.swap), _sound(version), strip_html(version), ""]


def _sound(version: Version) -> tuple[int, np.ndarray]:
    # int16, because the player scales floats to their own peak, and loudness would no longer compare.
    return version.sample_rate, (version.samples.clip(-1, 1) * 32767).astype(np.int16)


def _similarity_handler(synthesizer: Synthesizer) -> Callable[[float, str, str], list[object]]:
    def change(theta: float, similarity: str, before: str) -> list[object]:
        with telling():
            return [equal_theta(synthesizer.library, theta, before, similarity), similarity]

    return change


def _wire(synthesizer: Synthesizer, ears: Callable[[], Ears], controls: Controls, places: Places, session: gr.State) -> None:
    named, private = controls.named, {"api_visibility": "private", "show_progress": "hidden"}
    controls.run.click(
        on_gpu(_handler(synthesizer, ears), lambda *_: LONGEST_SECONDS),
        [*controls.inputs, session], [*places.all, controls.status],
        show_progress="hidden", trigger_mode="always_last", concurrency_id=DECODING, concurrency_limit=1,
        api_name="swap",
        api_description="Replace tokens of one utterance by other members of their groups, and judge the sound beside the "
        "original and a control; streams a record first of all, then the same as HTML, sounds and a figure.",
    )  # fmt: skip
    named["source"].input(
        lambda source: gr.update(visible=source == "text"), named["source"], controls.new, queue=False, **private
    )
    controls.dice.click(new_seed, None, named["seed"], queue=False, **private)
    before = gr.State(named["similarity"].value)
    named["similarity"].input(
        _similarity_handler(synthesizer), [named["theta"], named["similarity"], before], [named["theta"], before],
        api_visibility="private", show_progress="minimal", concurrency_limit=None,
    )  # fmt: skip


def _wire_many(
    run: Callable[[str], Iterator[list[object]]], controls: ManyControls, similarity: gr.Dropdown, table: gr.HTML
) -> None:
    running = controls.run.click(
        run, similarity, [table, controls.status],
        show_progress="hidden", concurrency_id=DECODING, concurrency_limit=1,
        api_name="swap_many",
        api_description="Swap a few sentences at several thetas by one similarity, beside random controls; streams the table "
        "and how far it is, both as HTML.",
    )  # fmt: skip
    controls.stop.click(
        lambda: message_html(STOPPED), None, controls.status, cancels=running, queue=False, api_visibility="private"
    )
