"""The Compare panel: one text by four methods and a preset, side by side, with figures, judges and downloads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component
from gradio.events import Dependency

from explorers.compare.actions import (
    CompareRequest,
    CompareStep,
    Speaker,
    compare_all,
    describe_groups,
    generate_again,
    new_seed,
)
from explorers.compare.all_takes import Tools, create_tools, wire_tools
from explorers.compare.archive import record
from explorers.compare.example import Example
from explorers.compare.form import create_form
from explorers.compare.stage import create_stage, stage_value
from explorers.compare.take_card import CardView, Curves, create_card, create_pairs, draw, strip_html
from explorers.errors import page_error, showing_errors
from explorers.judging import NO_TAKE, Judges, Verdicts, transcriber, usual_judges
from explorers.session import CARDS, PRESET, Card, Session, Turn
from explorers.settings.actions import wav_file
from explorers.shared.blocks import DECODING, Form, by_name, parameters_of, recognised_update
from explorers.shared.readout import FAILED, card_html, message_html, preset_title_html
from explorers.shared.ribbon import legend_html
from explorers.shared.spoof_curves import curves_html
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import InputError, PCGError
from pcg.experiments.spoofing import fitting
from pcg.prompts.prompt import Reference
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import Take

ASKING = "#run"
MOVING = "#theta, #lookahead, #beta, #similarity"
DETAILS = "Details: figures, mel pictures, detectors, verdicts, files"
TAKES_REMEMBERED = 64
READY = "Ready."
RECORDED = "A recorded example. Generate it again, or change a setting."
STOPPED = "Stopped. Finished takes stay."


def create_compare(
    synthesizer: Synthesizer,
    origin: Origin,
    session: gr.State,
    example: Example | None = None,
    load_judges: Callable[[], Judges] | None = None,
) -> Mapping[str, Component]:
    """Lay the panel out within the Blocks that is being built; return its controls by the names of CompareRequest.

    `session` holds a Session: the takes that the page shows, at first those of the `example`; `origin` goes into the files of
    new ones. `load_judges` is called when there is something to judge, or a recording comes without its transcript; without it
    the offline judges are loaded then.
    """
    judges = load_judges or usual_judges()
    verdicts = example.verdicts if example else Verdicts()
    if example:
        session.value = example.session
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=320, elem_classes="lab-controls"):
            shown = session.value.cards["pcg"].reading if example else None
            controls = create_form(synthesizer, shown, RECORDED if example else READY)
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            with gr.Column(elem_classes="lab-card"):
                codec = synthesizer.voice.codec
                stage = create_stage(codec.sample_rate, codec.hop, ASKING, MOVING, session.value, verdicts)
                gr.HTML(legend_html(), apply_default_css=False)
            with gr.Accordion(DETAILS, open=False, elem_id="details"):
                views = create_pairs(synthesizer, session.value)
                with gr.Row(equal_height=True, elem_classes="lab-pair"):
                    views[PRESET] = create_card(synthesizer, PRESET, session.value)
                    tools = create_tools(session.value, verdicts)
    cache = Path(tools.file.GRADIO_CACHE)

    def keep(take: Take, reference: Reference | None) -> Path:
        return wav_file(take, Stored.of(take, origin, reference, streamed=True), cache)

    speaker = Speaker(synthesizer, keep, transcriber(synthesizer, judges))
    _wire_takes(views, stage, session, tools.verdicts, _curves_by(synthesizer))
    runs = _wire(speaker, ComparePlaces(controls, stage, views, session, tools))
    wire_tools(synthesizer, judges, tools, runs, session)
    _wire_form(synthesizer, controls, runs, tools.turn)
    return controls.named


@dataclass(frozen=True)
class ComparePlaces:
    """Everything on the page that a run updates."""

    controls: Form
    stage: gr.HTML
    views: Mapping[str, CardView]
    session: gr.State
    tools: Tools

    @property
    def outputs(self) -> list[Block]:
        spoken = [place for key in CARDS for place in self.views[key].spoken]
        takes, preset = [self.views[key].take for key in CARDS], self.views[PRESET]
        beside = [preset.column, preset.title, self.controls.named["transcript"], self.tools.record]
        return [self.controls.status, self.stage, self.session, *spoken, *takes, *beside]


Updates = dict[Block, object]
Speak = Callable[[CompareRequest, Session], Iterator[CompareStep]]


def _handler(speak: Speak, places: ComparePlaces) -> Callable[..., Iterator[Updates]]:
    """`speak` as gradio calls it: one argument for each control, and updates by component."""
    lent = on_gpu(speak, lambda request, _: gpu_seconds(request.text, len(CARDS) * (request.takes or 1)))

    @parameters_of(CompareRequest, "session", "turn")
    def handle(*values: object) -> Iterator[Updates]:
        *controls, session, turn = values
        number = turn.next()
        try:
            with closing(lent(CompareRequest(**by_name(CompareRequest, controls)), session)) as steps:
                for step in steps:
                    yield _updates(step, places, number)
        except PCGError as error:
            yield {places.controls.status: message_html(FAILED)}
            raise page_error(error) from error

    return handle


def _updates(step: CompareStep, places: ComparePlaces, number: int) -> Updates:
    cards, preset, transcript = step.session.cards, places.views[PRESET], places.controls.named["transcript"]
    updates: Updates = {places.controls.status: step.status, places.session: step.session}
    if step.live:
        updates[places.stage] = gr.update(live=step.live.prop(number))
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
    """What generates takes: the whole run, and one method again when one of its own knobs moves."""
    controls, named = places.controls, places.controls.named
    decoding = {
        "inputs": [*controls.inputs, places.session, places.tools.turn],
        "outputs": places.outputs,
        "show_progress": "hidden",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }

    def again(method: str, *knobs: Component) -> Dependency:
        return gr.on(
            # `input` and not `change`: the page's own settings of a knob must not start a take.
            [knob.input for knob in knobs],
            _handler(partial(generate_again, speaker, method), places),
            trigger_mode="always_last",
            api_name=f"say_{method}_again",
            api_description=f"Generate one take with {method.upper()} alone.",
            **decoding,
        )

    full_run = gr.on(
        [controls.run.click, named["text"].submit],
        _handler(partial(compare_all, speaker), places),
        api_name="generate",
        api_description="Generate takes of the text with AR, SD, SSD, PCG and a preset, as many of each as requested; streams "
        "progress and the first take of each card (show_..._take has the others), and last a record of all figures.",
        **decoding,
    )
    return [full_run, again("pcg", named["theta"], named["lookahead"], named["similarity"]), again("ssd", named["beta"])]


def _curves_by(synthesizer: Synthesizer) -> Curves:
    """The curves of the voice's detectors along a take, kept, as a page is drawn often."""
    detectors = fitting(synthesizer)
    if detectors is None:
        return lambda reading: ""

    @lru_cache(maxsize=TAKES_REMEMBERED)
    def draw_curves(tokens: tuple[int, ...], seconds: float) -> str:
        return curves_html({name: curve.tolist() for name, curve in detectors.curves(tokens).items()}, seconds)

    return lambda reading: draw_curves(reading.tokens, reading.audio_seconds) if reading.tokens else ""


def _wire_takes(views: Mapping[str, CardView], stage: gr.HTML, session: gr.State, verdicts: gr.State, curves: Curves) -> None:
    """Step through the takes of a card, and draw stage and cards when the page opens and whenever anything changes."""
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


def _wire_form(synthesizer: Synthesizer, controls: Form, runs: Sequence[Dependency], turn: gr.State) -> None:
    named, private = controls.named, {"queue": False, "api_visibility": "private", "show_progress": "hidden"}

    def stop(turn: Turn) -> str:
        turn.next()
        return message_html(STOPPED)

    controls.stop.click(stop, turn, controls.status, cancels=list(runs), **private)
    named["recording"].clear(lambda: "", None, named["transcript"], **private)
    controls.dice.click(new_seed, None, named["seed"], queue=False, api_name="new_seed", api_description="A random seed.")

    def describe(theta: float, similarity: str) -> str:
        with showing_errors():
            return describe_groups(synthesizer, theta, similarity)

    gr.on(
        [named["theta"].change, named["similarity"].change], describe, [named["theta"], named["similarity"]], controls.groups,
        trigger_mode="always_last", show_progress="hidden",
        api_name="groups", api_description="The number and the mean size of the groups at a theta.",
    )  # fmt: skip
