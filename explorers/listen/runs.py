"""What generates takes, on the page and for programs: the whole run, and one method again when a knob of its own has moved."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from html import escape

import gradio as gr
from gradio.blocks import Block
from gradio.events import Dependency

from explorers.errors import page_error
from explorers.judging import Verdicts
from explorers.listen.actions import CompareRequest, generate_again, generate_all, new_seed
from explorers.listen.all_takes import JUDGES, Tools
from explorers.listen.archive import record
from explorers.listen.stage import CHOOSE, HALT, IN_HAND, SPEAK, moved
from explorers.listen.take_card import CardView, strip_html
from explorers.listen.turns import CompareStep, Speaker
from explorers.session import CARDS, PRESET, Card, Session
from explorers.shared.blocks import DECODING, Form, by_name, parameters_of, recognised_update, visible_when
from explorers.shared.readout import card_html, message_html, preset_title_html
from explorers.turn import Turn
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import PCGError

SPEAKING, VISITORS = "speaking", 24
"""Those whose takes wait for one another in a SpeechService; more wait in gradio's queue."""


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
        beside = [preset.column, preset.title, self.controls.named["transcript"]]
        studied = [place for key in CARDS for place in self.views[key].studied]
        told = [self.tools.status, self.controls.groups, self.stage, self.tools.record]
        return [self.controls.status, self.session, *spoken, *takes, *beside, *studied, *told]


HOLD = "choice => { document.querySelector('#similarity').dataset.held = choice; }"
CHOSEN = """choice => {
  const { dataset } = document.querySelector('#similarity');
  if (dataset.held !== choice) (MOVED)();
  dataset.held = choice;
}"""
"""What the menu of similarities runs when a visitor comes to it, and when it is left."""
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
        number, session = turn.begin(session)
        try:
            with closing(lent(CompareRequest(**by_name(CompareRequest, controls)), session, *others)) as steps:
                for step in steps:
                    if turn.number != number:  # A knob has moved on.
                        return
                    if step.marks or step.new:
                        turn.session = step.session
                    if step.done:
                        step = replace(step, session=turn.changed(step.session))
                        turn.end(number)
                    yield _updates(step, places, number)
        except PCGError as error:
            told = message_html(escape(str(error), quote=False))
            held = turn.so_far() if turn.number == number else None
            kept = {places.session: held} if held else {}
            turn.end(number)
            yield {places.controls.status: told, places.stage: gr.update(live=None), **kept}
            raise page_error(error) from error

    return handle


def _updates(step: CompareStep, places: ComparePlaces, number: int) -> Updates:
    cards, preset, transcript = step.session.cards, places.views[PRESET], places.controls.named["transcript"]
    updates: Updates = {places.controls.status: step.status}
    if step.live:
        updates[places.stage] = gr.update(live=step.live.prop(number))
    if step.done:
        # Not before: what the whole page does with new takes would run beside the next method, whose time is measured.
        updates |= {places.session: step.session, places.stage: gr.update(live=None)}
    if step.marks:
        updates |= {places.tools.status: message_html(JUDGES), places.controls.groups: step.groups}
    if step.marks or step.new:
        updates[preset.column] = gr.update(visible=visible_when(PRESET in cards))
    if step.recognised is not None:
        updates[transcript] = recognised_update(step.recognised)
    if step.new:
        updates |= _card_updates(cards[step.new], places.views[step.new])
        updates[places.tools.record] = record(step.session, Verdicts())
    if step.new == PRESET:
        updates[preset.title] = preset_title_html(cards[PRESET].name, cards[PRESET].reading.settings)
    return updates


def _card_updates(card: Card, view: CardView) -> Updates:
    """A card that begins anew shows its first take, and nothing of the take before; later ones are only there to be chosen."""
    count = len(card.takes)
    choices = [(f"take {number}" if number == 1 else str(number), number) for number in range(1, count + 1)]
    if count > 1:
        return {view.take: gr.update(choices=choices, visible=visible_when(True))}
    emptied = dict.fromkeys(view.studied, "")
    spoken = dict(zip(view.spoken, shown_take(card, 1), strict=True))
    return spoken | emptied | {view.take: gr.update(choices=choices, value=1, visible=visible_when(False))}


def shown_take(card: Card, number: int) -> list[object]:
    """The sound, the figures and the strip of one take."""
    shown = card.take(number)
    sound = str(shown.sound) if shown.sound and shown.sound.is_file() else None
    return [sound, card_html(card, number), strip_html(shown.reading)]


def wire_runs(speaker: Speaker, places: ComparePlaces) -> list[Dependency]:
    """What generates takes: the whole run, and one method again when a knob of its own has moved and rests."""
    controls, named, stage = places.controls, places.controls.named, places.stage
    decoding = {
        "outputs": places.outputs,
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "concurrency_id": DECODING if speaker.service is None else SPEAKING,
        "concurrency_limit": 1 if speaker.service is None else VISITORS,
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
    # Choices that the stage cannot see. A menu says that it was used whenever it is left, so it has to be another choice.
    named["sampler"].input(js=moved(IN_HAND), api_visibility="private")
    named["similarity"].focus(None, named["similarity"], js=HOLD, api_visibility="private")
    named["similarity"].input(None, named["similarity"], js=CHOSEN.replace("MOVED", moved("pcg")), api_visibility="private")
    controls.dice.click(new_seed, None, named["seed"], queue=False, api_name="new_seed", api_description="A random seed.").then(
        js=moved(IN_HAND), api_visibility="private"
    )
    private = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    getattr(stage, HALT)(_end_run, places.tools.turn, None, **private)
    # Through the queue, as a state changes, and gradio tells the page of that nowhere else.
    choosing = {**private, "queue": True, "concurrency_limit": None, "trigger_mode": "multiple"}
    getattr(stage, CHOOSE)(_chosen, places.session, [places.in_hand, places.session], **choosing)
    return [full_run, again("pcg"), again("ssd"), one]


def _end_run(turn: Turn) -> None:
    turn.halt()


def _chosen(session: Session, event: gr.EventData) -> list[object]:
    """The card that a visitor listens to is in hand, and no take of the history."""
    key = event._data.get("key") if isinstance(event._data, dict) else None
    if key not in CARDS:
        return [gr.skip(), gr.skip()]
    return [key, gr.skip() if session.held is None else replace(session, held=None)]
