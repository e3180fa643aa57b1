"""Say it four ways: one text, four decoders and a preset, side by side, heard, seen, judged, and saved."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

from explorers.compare.actions import Request, Speaker, Step, describe_groups, new_seed, say_again, say_four_ways
from explorers.compare.all_takes import Tools, create_tools, wire_tools
from explorers.compare.archive import record
from explorers.compare.example import Example
from explorers.compare.form import create_desk
from explorers.compare.take_card import CardView, Curves, create_card, create_pairs, draw, strip_html
from explorers.errors import telling, told
from explorers.judging import UNSAID, Ears, Verdicts, usual_judge
from explorers.session import CARDS, PRESET, Session, Turn
from explorers.settings.actions import wav_file
from explorers.shared.controls import Desk
from explorers.shared.readout import card_html, message_html, preset_title_html
from explorers.shared.ribbon import legend_html
from explorers.shared.spoof_curves import curves_html
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import InputError, PCGError
from pcg.experiments.spoofing import fitting
from pcg.prompts.prompt import Reference
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import Take

DECODING = "decoding"
TAKES_REMEMBERED = 64
READY = "Ready."
RECORDED = "An example, recorded earlier. Say it yourself, or move a knob."
STOPPED = "Stopped. Finished takes stay."
FAILED = "That did not work. Everything on the page is as it was."


def create_compare(
    synthesizer: Synthesizer,
    origin: Origin,
    session: gr.State,
    example: Example | None = None,
    ears: Callable[[], Ears] | None = None,
) -> Mapping[str, Component]:
    """Lay the panel out within the Blocks that is being built; return its controls by the names of Request.

    `session` holds a Session: the takes that the page shows, at first those of the `example`; `origin` goes into the files of
    new ones. `ears` is called when there is something to judge, or a recording's words are not given; without it the offline
    judges are loaded then.
    """
    hear = ears or lru_cache(maxsize=1)(lambda: Ears.load(usual_judge()))
    rate = synthesizer.voice.codec.sample_rate
    if example:
        session.value = Session.of_recorded(example.readings, example.sounds)
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            settings = example.readings["pcg"] if example else None
            controls = create_desk(synthesizer, settings, RECORDED if example else READY)
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            gr.HTML(legend_html(), apply_default_css=False)
            views = create_pairs(session.value, rate)
            with gr.Row(equal_height=True, elem_classes="lab-pair"):
                views[PRESET] = create_card(PRESET, session.value, rate)
                tools = create_tools(session.value)
    cache = Path(tools.file.GRADIO_CACHE)

    def keep(take: Take, reference: Reference | None) -> Path:
        return wav_file(take, Stored.of(take, origin, reference), cache)

    speaker = Speaker(synthesizer, keep, lambda path: hear().transcribe(path))
    _wire_takes(views, session, tools.verdicts, _curves_by(synthesizer))
    runs = _wire(speaker, controls, views, session, tools)
    wire_tools(synthesizer, hear, tools, runs, session)
    _wire_desk(synthesizer, controls, runs, tools.turn)
    return controls.named


Speak = Callable[[Request, Session], Iterator[Step]]


def _handler(speak: Speak) -> Callable[..., Iterator[list[object]]]:
    """`speak` as gradio calls it: one argument a control, one update a place on the page."""
    lent = on_gpu(speak, lambda request, _: gpu_seconds(request.text, len(CARDS) * (request.takes or 1)))

    def handle(
        text: str,
        voice: str,
        theta: float,
        lookahead: int,
        beta: float,
        temperature: float,
        seed: int,
        recording: str | None,
        transcript: str,
        consent: bool,
        similarity: str,
        takes: int,
        preset: str,
        session: Session,
        turn: Turn,
    ) -> Iterator[list[object]]:
        turn.next()
        knobs = (theta, lookahead, beta, temperature, seed)
        request = Request(text, voice, *knobs, recording, transcript, consent, similarity, takes, preset)
        try:
            with closing(lent(request, session)) as steps:
                for step in steps:
                    yield _updates(step)
        except PCGError as error:
            yield [message_html(FAILED), *[gr.skip()] * (5 + 4 * len(CARDS))]
            raise told(error) from error

    return handle


def _updates(step: Step) -> list[object]:
    """The status, the session, sound, figures and strip of every card, its number of takes, the preset's, words and record."""
    cards = step.session.cards
    spoken = [update for key in CARDS for update in _spoken(step, key)]
    takes = [_numbers(step, key) for key in CARDS]
    title = preset_title_html(cards[PRESET].name, cards[PRESET].reading.settings) if step.new == PRESET else gr.skip()
    column = gr.update(visible=PRESET in cards) if step.marks or step.new else gr.skip()
    words = gr.skip()
    if step.understood is not None:
        words = gr.update(value=step.understood, info="This was understood. Correct it where it is wrong, and say it again.")
    figures = record(step.session, Verdicts()) if step.new else gr.skip()
    return [step.status, step.session, *spoken, *takes, column, title, words, figures]


def _spoken(step: Step, key: str) -> list[object]:
    card = step.session.cards.get(key)
    if step.new == key and len(card.takes) == 1:
        sound = str(card.first.sound) if card.first.sound else None
        return [sound, card_html(card), strip_html(card.reading)]
    return [gr.skip(), card_html(card) if card and step.marks else gr.skip(), gr.skip()]


def _numbers(step: Step, key: str) -> object:
    """How many takes there are to step through; a card that is begun anew shows its first."""
    if step.new != key:
        return gr.skip()
    count = len(step.session.cards[key].takes)
    choices = [(f"take {number}" if number == 1 else str(number), number) for number in range(1, count + 1)]
    return gr.update(choices=choices, value=1, visible=False) if count == 1 else gr.update(choices=choices, visible=True)


def _shower(key: str) -> Callable[[int, Session], list[object]]:
    def show(number: int, session: Session) -> list[object]:
        with telling():
            card = session.cards.get(key)
            if card is None:
                raise PCGError(UNSAID)
            if number not in range(1, len(card.takes) + 1):
                raise InputError("take", number, f"a whole number from 1 to {len(card.takes)}")
        said = card.take(number)
        sound = str(said.sound) if said.sound and said.sound.is_file() else None
        return [sound, card_html(card, number), strip_html(said.reading)]

    return show


def _wire(speaker: Speaker, controls: Desk, views: Mapping[str, CardView], session: gr.State, tools: Tools) -> list[Dependency]:
    """What speaks: the whole run, and a method again when one of its own knobs moves."""
    named, preset = controls.named, views[PRESET]
    beside = [preset.column, preset.title, named["transcript"], tools.record]
    spoken = [place for key in CARDS for place in views[key].spoken]
    takes = [views[key].take for key in CARDS]
    decoding = {
        "inputs": [*controls.inputs, session, tools.turn],
        "outputs": [controls.status, session, *spoken, *takes, *beside],
        "show_progress": "hidden",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }

    def again(method: str, *knobs: Component) -> Dependency:
        return gr.on(
            # `input` and not `change`: the page's own settings of a knob must not start a take.
            [knob.input for knob in knobs],
            _handler(partial(say_again, speaker, method)),
            trigger_mode="always_last",
            api_name=f"say_{method}_again",
            api_description=f"Say the text with {method.upper()} alone.",
            **decoding,
        )

    four_ways = gr.on(
        [controls.run.click, named["text"].submit],
        _handler(partial(say_four_ways, speaker)),
        api_name="say_four_ways",
        api_description="Say the text with AR, SD, SSD, PCG and a preset, as many takes of each as are asked for; streams "
        "progress and each card's first take (show_..._take has the others), and last a record of all figures.",
        **decoding,
    )
    return [four_ways, again("pcg", named["theta"], named["lookahead"], named["similarity"]), again("ssd", named["beta"])]


def _curves_by(synthesizer: Synthesizer) -> Curves:
    """What the voice's detectors say along a take; a page is drawn often, and asks them once."""
    detectors = fitting(synthesizer)
    if detectors is None:
        return lambda reading: ""

    @lru_cache(maxsize=TAKES_REMEMBERED)
    def draw_curves(tokens: tuple[int, ...], seconds: float) -> str:
        return curves_html({name: curve.tolist() for name, curve in detectors.curves(tokens).items()}, seconds)

    return lambda reading: draw_curves(reading.tokens, reading.audio_seconds) if reading.tokens else ""


def _wire_takes(views: Mapping[str, CardView], session: gr.State, verdicts: gr.State, curves: Curves) -> None:
    """Step through the takes of a card, and draw every card when the page opens and whenever anything changes."""
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
        lambda session, verdicts, *numbers: draw(session, verdicts, dict(zip(CARDS, numbers, strict=True)), curves),
        [session, verdicts, *takes], [place for key in CARDS for place in views[key].drawn],
        trigger_mode="always_last", api_visibility="private", **quick,
    )  # fmt: skip


def _wire_desk(synthesizer: Synthesizer, controls: Desk, runs: Sequence[Dependency], turn: gr.State) -> None:
    named, private = controls.named, {"queue": False, "api_visibility": "private", "show_progress": "hidden"}

    def stop(turn: Turn) -> str:
        turn.next()
        return message_html(STOPPED)

    controls.stop.click(stop, turn, controls.status, cancels=list(runs), **private)
    named["recording"].clear(lambda: "", None, named["transcript"], **private)
    controls.dice.click(
        new_seed, None, named["seed"], queue=False, api_name="new_seed", api_description="Roll the dice for a seed."
    )

    def describe(theta: float, similarity: str) -> str:
        with telling():
            return describe_groups(synthesizer, theta, similarity)

    gr.on(
        [named["theta"].change, named["similarity"].change], describe, [named["theta"], named["similarity"]], controls.groups,
        trigger_mode="always_last", show_progress="hidden",
        api_name="groups", api_description="Tell the number and the mean size of the groups at a theta.",
    )  # fmt: skip
