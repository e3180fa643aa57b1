"""The Swap panel: a test of whether the members of a group can replace each other, in one utterance."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component

from explorers.errors import page_error
from explorers.groups.layout import EQUAL_SIZE_INFO, keep_mean_size
from explorers.listen.actions import new_seed
from explorers.session import Session
from explorers.shared.blocks import (
    DECODING,
    by_name,
    json_drawer,
    knob,
    parameters_of,
    pcm,
    player,
    queued_beside,
    seed_and_dice,
    similarity_choice,
    text_box,
    visible_when,
    voice_choice,
)
from explorers.shared.one_state import BEFORE, MOVES
from explorers.shared.readout import failure_html, message_html
from explorers.shared.terms import explained, term_info
from explorers.swap.actions import (
    NOTE,
    VERSIONS,
    Judges,
    StressTest,
    SwapRequest,
    Version,
    stress,
)
from explorers.swap.figures import (
    heard_html,
    legend_html,
    mels_figure,
    original_html,
    strip_html,
    table_html,
    title_html,
)
from explorers.swap.many import create_many_controls, create_many_table, wire_many
from explorers.zero_gpu import LONGEST_SECONDS, on_gpu
from pcg.errors import PCGError
from pcg.experiments.store import Store
from pcg.experiments.worker import WorkerSpec
from pcg.places import CACHE
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Speak

HEADING = """<header class="title"><h2>Swap<small>the stress test of the groups</small></h2>
<p>Every token is replaced by another member of its group, regardless of the target (PCG section 4, Table 2). If the groups are
sound, the loss is small. The control shows the loss with arbitrary tokens.</p></header>"""
SOURCE_NAMES = {"last": "AR of the last run", "hand": "the take in hand", "text": "a new text"}
CONTROL_NAMES = {
    "random": "any codes at the same positions",
    "mel": "Mel groups of equal mean size",
    "none": "none",
}
READY = "Choose theta, then swap."
THETA_INFO = explained("theta", "A lower one is a harder test.")
FRACTION_INFO = f"Share of the replaceable tokens that are {term_info('swapped')}. A larger share includes the smaller ones."


@dataclass(frozen=True)
class SwapControls:
    """The left-hand side. `inputs` are in the order of SwapRequest; `new` holds those of a new text."""

    inputs: list[Component]
    new: gr.Column
    run: gr.Button
    dice: gr.Button
    status: gr.HTML

    @property
    def named(self) -> dict[str, Component]:
        return by_name(SwapRequest, self.inputs)


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
class SwapPlaces:
    """The right-hand side."""

    said: gr.HTML
    table: gr.HTML
    mels: gr.Plot
    record: gr.JSON
    views: dict[str, VersionView]

    @property
    def all(self) -> list[Component | gr.Column]:
        return [self.record, self.said, self.table, self.mels, *(place for view in self.views.values() for place in view.all)]


def create_swap(
    synthesizer: Synthesizer,
    spec: WorkerSpec,
    session: gr.State,
    in_hand: gr.Radio,
    results: Path = CACHE,
    speak: Speak | None = None,
) -> Mapping[str, object]:
    """Lay the panel out within the Blocks that is being built. `spec` names the judge of words and the worker for many
    utterances; both are loaded when they are needed. `session` holds a Session, whose takes may be swapped, `in_hand`
    tells which of them; the folder `results` keeps the units of many utterances; speak: as in `stress`. What is returned are
    the controls, by the names of SwapRequest, and what stands under BEFORE and MOVES."""
    load_judges = lru_cache(maxsize=1)(lambda: Judges.load(spec.judge, spec.device))
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer)
            many = create_many_controls()
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            places = _places(synthesizer)
            table = create_many_table()
    lent = on_gpu(partial(stress, synthesizer, load_judges, speak=speak), lambda *_: LONGEST_SECONDS)
    handle = _handler(lent, controls, places)
    _wire(handle, controls, places, session, in_hand)
    wire_many(synthesizer, spec, Store(results), many, controls.named["similarity"], table)
    before, moves = keep_mean_size(synthesizer, controls.named["theta"], controls.named["similarity"])
    return controls.named | {BEFORE: before, MOVES: [moves]}


def _controls(synthesizer: Synthesizer) -> SwapControls:
    with gr.Column(elem_classes="lab-form"):
        source = gr.Radio([(n, k) for k, n in SOURCE_NAMES.items()], value="last", label="Utterance", elem_id="swap-source")
        with gr.Column(visible=False) as new:
            text = text_box("swap-", info="Generated by the target alone.")
            voice = voice_choice(synthesizer, "swap-")
            temperature = knob("temperature", Settings(), "swap-", explained("temperature"))
        run = gr.Button("Swap", variant="primary", elem_id="swap-run")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="swap-status")
    with gr.Column(elem_classes="lab-form"):
        theta, similarity, fraction = _groups_of(synthesizer)
        control = gr.Radio(
            [(n, k) for k, n in CONTROL_NAMES.items()], value="random", label="Control", elem_id="swap-control",
            info="What the swap is compared with.",
        )  # fmt: skip
        seed, dice = seed_and_dice("swap-", Settings().seed)
    inputs = [source, text, voice, theta, similarity, fraction, control, seed, temperature]
    return SwapControls(inputs, new, run, dice, status)


def _groups_of(synthesizer: Synthesizer) -> tuple[gr.Slider, gr.Dropdown, gr.Slider]:
    """What is swapped."""
    theta = knob("theta", Settings(), "swap-", THETA_INFO)
    similarity = similarity_choice(synthesizer, "swap-", info=EQUAL_SIZE_INFO)
    fraction = gr.Slider(
        0, 1, 1, step=0.05, label="Fraction", buttons=[], elem_id="swap-fraction",
        info=FRACTION_INFO,
    )  # fmt: skip
    return theta, similarity, fraction


def _places(synthesizer: Synthesizer) -> SwapPlaces:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        said = gr.HTML("", apply_default_css=False, elem_id="swap-said")
        gr.HTML(legend_html(), apply_default_css=False)
    with gr.Row(equal_height=True, elem_classes="lab-pair"):
        views = {name: _view(synthesizer, name) for name in VERSIONS}
    with gr.Column(elem_classes="lab-card"):
        table = gr.HTML(message_html(NOTE), apply_default_css=False, elem_id="swap-table")
        mels = gr.Plot(show_label=False, visible=False, elem_id="swap-mels")
        record = json_drawer("swap-record")
    return SwapPlaces(said, table, mels, record, views)


def _view(synthesizer: Synthesizer, name: str) -> VersionView:
    with gr.Column(min_width=300, elem_classes="lab-card", elem_id=f"swap-{name}") as card:
        title = gr.HTML(title_html(name), apply_default_css=False)
        sound = player(synthesizer, name.capitalize(), f"swap-sound-{name}")
        strip = gr.HTML("", apply_default_css=False, elem_id=f"swap-strip-{name}")
        heard = gr.HTML("", apply_default_css=False, elem_id=f"swap-heard-{name}")
    return VersionView(card, title, sound, strip, heard)


Updates = dict[Block, object]


def _handler(
    stress: Callable[[SwapRequest, Session, str], Iterator[StressTest]], controls: SwapControls, places: SwapPlaces
) -> Callable[..., Iterator[Updates]]:
    """`stress` as gradio calls it: one argument for each control, and updates by component."""

    @parameters_of(SwapRequest, "method", "session")
    def handle(*values: object) -> Iterator[Updates]:
        *inputs, method, session = values
        try:
            request = SwapRequest(**by_name(SwapRequest, inputs))
            with closing(stress(request, session, method)) as steps:
                for step in steps:
                    yield _updates(step, places) | {controls.status: message_html(step.now or "Swapped.")}
        except PCGError as error:
            yield {controls.status: failure_html(error)}
            raise page_error(error) from error

    return handle


def _updates(step: StressTest, places: SwapPlaces) -> Updates:
    updates: Updates = {places.said: original_html(step)} if step.original else {}
    if not step.versions:
        return updates
    versions = {version.name: version for version in step.versions}
    updates |= {places.record: step.record(), places.table: table_html(step)}
    if step.now:
        updates[places.mels] = gr.update(value=mels_figure(step), visible=True)
    for name, view in places.views.items():
        updates |= _card_updates(name, versions.get(name), view, fresh=bool(step.now))
    return updates


def _card_updates(name: str, version: Version | None, view: VersionView, fresh: bool) -> Updates:
    """fresh: its sound is new; later only the verdict is."""
    if version is None:
        empty = {view.title: title_html(name), view.sound: None, view.strip: "", view.heard: ""}
        return {view.card: gr.update(visible=visible_when(False)), **empty}
    if not fresh:
        return {view.heard: heard_html(version)}
    sound = pcm(version.samples, version.sample_rate)
    shown = {view.title: title_html(name, version.swap), view.sound: sound, view.strip: strip_html(version), view.heard: ""}
    return {view.card: gr.update(visible=visible_when(True)), **shown}


def _wire(
    handle: Callable[..., Iterator[Updates]],
    controls: SwapControls,
    places: SwapPlaces,
    session: gr.State,
    in_hand: gr.Radio,
) -> None:
    named, private = controls.named, {"api_visibility": "private", "show_progress": "hidden"}
    controls.run.click(
        handle, [*controls.inputs, in_hand, session], [*places.all, controls.status],
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="swap",
        api_description="Replace tokens of one utterance by other members of their groups, and judge the sound beside the "
        "original and a control; streams a record first of all, then the same as HTML, sounds and a figure.",
    )  # fmt: skip
    named["source"].input(
        lambda source: gr.update(visible=source == "text"), named["source"], controls.new, queue=False, **private
    )
    controls.dice.click(new_seed, None, named["seed"], queue=False, **private)
