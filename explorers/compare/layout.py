"""The Compare panel: one text by four methods and a preset, side by side, with figures, judges and downloads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from pathlib import Path

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component
from gradio.events import Dependency

from explorers.compare.actions import (
    CompareRequest,
    CompareStep,
    Speaker,
    describe_groups,
    generate_again,
    generate_all,
    new_seed,
    stopped,
)
from explorers.compare.all_takes import Tools, create_tools, wire_tools
from explorers.compare.archive import record
from explorers.compare.example import Example
from explorers.compare.form import create_form
from explorers.compare.stage import CHOOSE, HALT, IN_HAND, SPEAK, create_stage, moved, stage_value
from explorers.compare.take_card import CardView, Curves, create_card, create_pairs, draw, strip_html
from explorers.errors import page_error, showing_errors
from explorers.judging import NO_TAKE, Judges, Verdicts, transcriber, usual_judges
from explorers.session import CARDS, PRESET, Card, Session, Turn
from explorers.settings.actions import wav_file
from explorers.shared.blocks import DECODING, Form, by_name, parameters_of, recognised_update
from explorers.shared.readout import card_html, message_html, preset_title_html
from explorers.shared.spoof_curves import curves_html
from explorers.tune.layout import create_in_hand, wire_in_hand
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import InputError, PCGError
from pcg.experiments.spoofing import fitting
from pcg.prompts.prompt import Reference
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import Take

MOVED_BY = {
    "pcg": ("theta", "similarity"),
    "ssd": ("beta",),
    IN_HAND: ("lookahead", "adaptive", "temperature", "sampler", "top_k", "top_p"),
}
"""The method that a knob generates again; IN_HAND is the one that the visitor listens to."""
DETAILS = "Details: figures, mel pictures, detectors, verdicts, files"
TAKES_REMEMBERED = 64
READY = "Ready."
RECORDED = "A recorded example. Generate it again, or change a setting."


@dataclass(frozen=True)
class CompareView:
    """What other parts of the page may connect to: `controls` go by the names of CompareRequest; `strip` is that of the take in
    hand."""

    controls: Mapping[str, Component]
    strip: gr.HTML


def create_compare(
    page: gr.Blocks,
    synthesizer: Synthesizer,
    origin: Origin,
    session: gr.State,
    example: Example | None = None,
    load_judges: Callable[[], Judges] | None = None,
    claim: str = "",
) -> CompareView:
    """Lay the panel out within `page`, which is being built.

    `session` holds a Session: the takes that the page shows, at first those of the `example`; `origin` goes into the files of
    new ones. `load_judges` is called when there is something to judge, or a recording comes without its transcript; without it
    the offline judges are loaded then. claim: what stands above the player, as HTML.
    """
    judges = load_judges or usual_judges()
    verdicts = example.verdicts if example else Verdicts()
    if example:
        session.value = example.session
    # No State, as a program may name it, too.
    in_hand = gr.Radio(list(CARDS), value="pcg", label="Method", visible=False)
    with gr.Row(equal_height=False, elem_classes="listen"):
        with gr.Column(scale=0, min_width=320, elem_classes="lab-controls"):
            shown = session.value.cards["pcg"].reading if example else None
            controls = create_form(synthesizer, shown, RECORDED if example else READY)
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            with gr.Column(elem_classes="lab-card"):
                codec = synthesizer.voice.codec
                gr.HTML(claim, apply_default_css=False, visible=bool(claim), elem_id="claim")
                stage = create_stage(codec.sample_rate, codec.hop, session.value, verdicts)
            looked_at = create_in_hand(synthesizer)
            with gr.Accordion(DETAILS, open=False, elem_id="details"):
                views = create_pairs(synthesizer, session.value)
                with gr.Row(equal_height=True, elem_classes="lab-pair"):
                    views[PRESET] = create_card(synthesizer, PRESET, session.value)
                    tools = create_tools(session.value, verdicts)
    cache = Path(tools.file.GRADIO_CACHE)

    def keep(take: Take, reference: Reference | None) -> Path:
        return wav_file(take, Stored.of(take, origin, reference, streamed=True), cache)

    speaker = Speaker(synthesizer, keep, transcriber(synthesizer, judges))
    places = ComparePlaces(controls, stage, in_hand, views, session, tools)
    _wire_takes(places, _curves_by(synthesizer))
    runs = _wire(speaker, places)
    wire_in_hand(synthesizer, looked_at, session, in_hand, page, runs)
    wire_tools(synthesizer, judges, tools, runs, session)
    _wire_form(synthesizer, places, runs)
    return CompareView(controls.named, looked_at.strip)


@dataclass(frozen=True)
class ComparePlaces:
    """Everything on the page that a run updates."""

    controls: Form
    stage: gr.HTML
    in_hand: gr.Radio
    views: Mapping[str, CardView]
    session: gr.State
    tools: Tools

    @property
    def outputs(self) -> list[Block]:
        spoken = [place for key in CARDS for place in self.views[key].spoken]
        takes, preset = [self.views[key].take for key in CARDS], self.views[PRESET]
        beside = [preset.column, preset.title, self.controls.named["transcript"], self.stage, self.tools.record]
        return [self.controls.status, self.session, *spoken, *takes, *beside]


Updates = dict[Block, object]
Speak = Callable[..., Iterator[CompareStep]]


def _handler(speak: Speak, places: ComparePlaces, *more: str) -> Callable[..., Iterator[Updates]]:
    """`speak` as gradio calls it: one argument for each control, and updates by component. more: names of arguments behind the
    request and the session."""
    lent = on_gpu(speak, lambda request, *_: gpu_seconds(request.text, len(CARDS) * (request.takes or 1)))

    @parameters_of(CompareRequest, *more, "session", "turn")
    def handle(*values: object) -> Iterator[Updates]:
        *inputs, session, turn = values
        controls, others = inputs[: len(inputs) - len(more)], inputs[len(inputs) - len(more) :]
        number = turn.next()
        try:
            with closing(lent(CompareRequest(**by_name(CompareRequest, controls)), session, *others)) as steps:
                for step in steps:
                    if turn.number != number:  # A knob has moved on.
                        return
                    yield _updates(step, places, number)
        except PCGError as error:
            yield {places.controls.status: message_html(escape(str(error), quote=False)), places.stage: gr.update(live=None)}
            raise page_error(error) from error

    return handle


def _updates(step: CompareStep, places: ComparePlaces, number: int) -> Updates:
    cards, preset, transcript = step.session.cards, places.views[PRESET], places.controls.named["transcript"]
    updates: Updates = {places.controls.status: step.status, places.session: step.session}
    if step.live or step.new:
        updates[places.stage] = gr.update(live=step.live and step.live.prop(number))
    if step.marks:
        updates |= {places.views[key].readout: card_html(card) for key, card in cards.items()}
    if step.marks or step.new:
        updates[preset.column] = gr.update(visible=PRESET in cards)
    if step.recognised is not None:
        updates[transcript] = recognised_update(step.recognised)
    if step.new:
        updates |= _card_updates(cards[step.new], places.views[step.new])
        updates[places.tools.record] = record(step.session, Verdicts())
    if step.new == PRESET:
        updates[preset.title] = preset_title_html(cards[PRESET].name, cards[PRESET].reading.settings)
    return updates


def _card_updates(card: Card, view: CardView) -> Updates:
    """A card that begins anew shows its first take; later ones are only there to be chosen."""
    count = len(card.takes)
    choices = [(f"take {number}" if number == 1 else str(number), number) for number in range(1, count + 1)]
    if count > 1:
        return {view.take: gr.update(choices=choices, visible=True)}
    return dict(zip(view.spoken, _shown(card, 1), strict=True)) | {
        view.take: gr.update(choices=choices, value=1, visible=False)
    }


def _shown(card: Card, number: int) -> list[object]:
    """The sound, the figures and the strip of one take."""
    shown = card.take(number)
    sound = str(shown.sound) if shown.sound and shown.sound.is_file() else None
    return [sound, card_html(card, number), strip_html(shown.reading)]


def _shower(key: str) -> Callable[[int, Session], list[object]]:
    def show(number: int, session: Session) -> list[object]:
        with showing_errors():
            card = session.cards.get(key)
            if card is None:
                raise PCGError(NO_TAKE)
            if number not in range(1, len(card.takes) + 1):
                raise InputError("take", number, f"a whole number from 1 to {len(card.takes)}")
        return _shown(card, number)

    return show


def _wire(speaker: Speaker, places: ComparePlaces) -> list[Dependency]:
    """What generates takes: the whole run, and one method again when a knob of its own has moved and rests."""
    controls, named, stage = places.controls, places.controls.named, places.stage
    decoding = {
        "outputs": places.outputs,
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }
    states = [places.session, places.tools.turn]

    def again(method: str) -> Dependency:
        return getattr(stage, f"{SPEAK}{method}")(
            _handler(partial(generate_again, speaker, method), places), [*controls.inputs, *states],
            api_name=f"generate_{method}", api_description=f"Generate one take with {method.upper()} alone.", **decoding,
        )  # fmt: skip

    full_run = gr.on(
        [controls.run.click, named["text"].submit], _handler(partial(generate_all, speaker), places),
        [*controls.inputs, *states], api_name="generate",
        api_description="Generate takes of the text with AR, SD, SSD, PCG and a preset, as many of each as requested; streams "
        "progress and the first take of each card (show_..._take has the others), and last a record of all figures.",
        **decoding,
    )  # fmt: skip
    one = getattr(stage, f"{SPEAK}{IN_HAND}")(
        _handler(lambda request, session, method: generate_again(speaker, method, request, session), places, "method"),
        [*controls.inputs, places.in_hand, *states], api_name="generate_one",
        api_description="Generate one take with the named method alone.", **decoding,
    )  # fmt: skip
    for method, knobs in MOVED_BY.items():
        gr.on([named[name].input for name in knobs], js=moved(method), api_visibility="private")
    controls.dice.click(new_seed, None, named["seed"], queue=False, api_name="new_seed", api_description="A random seed.").then(
        js=moved(IN_HAND), api_visibility="private"
    )
    private = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    getattr(stage, HALT)(lambda turn: turn.next(), places.tools.turn, None, **private)
    getattr(stage, CHOOSE)(_chosen, None, places.in_hand, **private)
    return [full_run, again("pcg"), again("ssd"), one]


def _chosen(event: gr.EventData) -> object:
    key = event._data.get("key") if isinstance(event._data, dict) else None
    return key if key in CARDS else gr.skip()


def _curves_by(synthesizer: Synthesizer) -> Curves:
    """The curves of the voice's detectors along a take, kept, as a page is drawn often."""
    detectors = fitting(synthesizer)
    if detectors is None:
        return lambda reading: ""

    @lru_cache(maxsize=TAKES_REMEMBERED)
    def draw_curves(tokens: tuple[int, ...], seconds: float) -> str:
        return curves_html({name: curve.tolist() for name, curve in detectors.curves(tokens).items()}, seconds)

    return lambda reading: draw_curves(reading.tokens, reading.audio_seconds) if reading.tokens else ""


def _wire_takes(places: ComparePlaces, curves: Curves) -> None:
    """Step through the takes of a card, and draw stage and cards when the page opens and whenever anything changes."""
    views, stage, session, verdicts = places.views, places.stage, places.session, places.tools.verdicts
    takes = [views[key].take for key in CARDS]
    quick = {"show_progress": "hidden", "queue": False}
    for key in CARDS:
        views[key].take.input(
            _shower(key), [views[key].take, session], views[key].spoken, **quick,
            api_name=f"show_{key}_take", api_description=f"One of the takes of the card {key.upper()}, by its number from 1.",
        )  # fmt: skip
    # Without triggers: when the page is opened, and when any of the inputs changes.
    gr.on(
        None,
        lambda session, verdicts, *numbers: [
            stage_value(session, verdicts), *draw(session, verdicts, dict(zip(CARDS, numbers, strict=True)), curves)
        ],
        [session, verdicts, *takes], [stage, *(place for key in CARDS for place in views[key].drawn)],
        trigger_mode="always_last", api_visibility="private", **quick,
    )  # fmt: skip


def _wire_form(synthesizer: Synthesizer, places: ComparePlaces, runs: Sequence[Dependency]) -> None:
    controls, named = places.controls, places.controls.named
    private = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}

    def stop(turn: Turn, session: Session) -> Updates:
        turn.next()
        return {controls.status: message_html(stopped(session)), places.stage: gr.update(live=None)}

    controls.stop.click(
        stop, [places.tools.turn, places.session], [controls.status, places.stage], cancels=list(runs), **private
    )
    named["recording"].clear(lambda: "", None, named["transcript"], **private)

    def describe(theta: float, similarity: str) -> str:
        with showing_errors():
            return describe_groups(synthesizer, theta, similarity)

    gr.on(
        [named["theta"].change, named["similarity"].change], describe, [named["theta"], named["similarity"]], controls.groups,
        trigger_mode="always_last", show_progress="hidden",
        api_name="groups", api_description="The number and the mean size of the groups at a theta.",
    )  # fmt: skip
