"""The first tab: one text by four methods and a preset, one player for all of them, the take in hand, and their details."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

from explorers.errors import showing_errors
from explorers.judging import NO_TAKE, Judges, Verdicts, transcriber, usual_judges
from explorers.listen.actions import describe_groups, stopped
from explorers.listen.all_takes import create_tools, wire_tools
from explorers.listen.example import Example
from explorers.listen.form import create_form, voice_update
from explorers.listen.runs import VISITORS, ComparePlaces, Updates, shown_take, wire_runs
from explorers.listen.stage import create_stage, stage_value
from explorers.listen.take_card import Curves, create_card, create_pairs, draw
from explorers.listen.turns import Keep, Speaker
from explorers.session import CARDS, PRESET, Session
from explorers.settings.actions import wav_file
from explorers.shared.readout import message_html
from explorers.shared.spoof_curves import curves_html
from explorers.tune.layout import create_in_hand, wire_in_hand
from explorers.turn import Turn
from explorers.zero_gpu import is_lent
from pcg.errors import InputError, PCGError
from pcg.serving.speech_service import SpeechService
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import Speak, Take
from pcg.text.prompt import Reference

DETAILS = "Details: figures, mel pictures, detectors, verdicts, files"
TAKES_REMEMBERED = 64
POSITIONS = 2048
AT_ONCE = 4
READY = "Ready."
RECORDED = "A recorded example. Generate it again, or change a setting."


@dataclass(frozen=True)
class CompareView:
    """What other parts of the page may connect to: `controls` go by the names of CompareRequest, and under "method" stands the
    key of the take in hand (`in_hand`), of which `strip` is the picture; `verdicts` holds those on the takes; `status` tells
    of a run, `shared` of a take that came by a link. `speak`: so that every panel's takes are decoded by one thread; `keep`:
    writes a take into a file; `turn` holds the Turn of what is generated."""

    controls: Mapping[str, Component]
    in_hand: gr.Radio
    verdicts: gr.State
    strip: gr.HTML
    status: gr.HTML
    shared: gr.HTML
    speak: Speak
    keep: Keep
    turn: gr.State


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
                shared = gr.HTML("", apply_default_css=False, elem_id="shared")
                stage = create_stage(codec.sample_rate, codec.hop, session.value, verdicts)
            room = gr.Column(elem_classes="lab-takes")
            with gr.Accordion(DETAILS, open=False, elem_id="details") as details:
                views = create_pairs(synthesizer, session.value)
                with gr.Row(equal_height=True, elem_classes="lab-pair"):
                    views[PRESET] = create_card(synthesizer, PRESET, session.value)
                    tools = create_tools(session.value, verdicts)
    cache = Path(tools.file.GRADIO_CACHE)

    def keep(take: Take, reference: Reference | None, streamed: bool) -> Path:
        return wav_file(take, Stored.of(take, origin, reference, streamed), cache)

    speaker = Speaker(synthesizer, keep, transcriber(synthesizer, judges), _service(synthesizer))
    places = ComparePlaces(controls, stage, in_hand, views, session, tools)
    # First of all, as programs are offered the endpoints in the order of the wiring.
    runs = wire_runs(speaker, places)
    with room:
        looked_at = create_in_hand(synthesizer)
    _wire_takes(places, details, page, _curves_by(synthesizer))
    wire_in_hand(synthesizer, origin, looked_at, session, in_hand, page)
    wire_tools(synthesizer, judges, tools, runs, session)
    _wire_form(synthesizer, places, runs, page)
    named = {**controls.named, "method": in_hand}
    return CompareView(
        named, in_hand, tools.verdicts, looked_at.strip, controls.status, shared, speaker.speak, keep, tools.turn
    )


def _service(synthesizer: Synthesizer) -> SpeechService | None:
    """All takes in turns, as each is timed, those of `AT_ONCE` visitors side by side; None on a GPU, where takes wait in
    gradio's queue, since a running batch has no CUDA graphs."""
    if is_lent() or synthesizer.voice.device != "cpu":
        return None
    return SpeechService(synthesizer, AT_ONCE * len(CARDS), POSITIONS, waiting=VISITORS * len(CARDS), in_turns=True)


def _shower(key: str) -> Callable[[int, Session], list[object]]:
    def show(number: int, session: Session) -> list[object]:
        with showing_errors():
            card = session.cards.get(key)
            if card is None:
                raise PCGError(NO_TAKE)
            if number not in range(1, len(card.takes) + 1):
                raise InputError("take", number, f"a whole number from 1 to {len(card.takes)}")
        return shown_take(card, number)

    return show


def _curves_by(synthesizer: Synthesizer) -> Curves:
    """The curves of the voice's detectors along a take, kept, as a page is drawn often."""
    detectors = synthesizer.decoder.detectors
    if detectors is None:
        return lambda reading: ""

    @lru_cache(maxsize=TAKES_REMEMBERED)
    def draw_curves(tokens: tuple[int, ...], seconds: float) -> str:
        return curves_html({name: curve.tolist() for name, curve in detectors.curves(tokens).items()}, seconds)

    return lambda reading: draw_curves(reading.tokens, reading.audio_seconds) if reading.tokens else ""


def _wire_takes(places: ComparePlaces, details: gr.Accordion, page: gr.Blocks, curves: Curves) -> None:
    """Step through the takes of a card; draw the stage and the details of the cards when anything changes: the session does so
    when a run has ended, so that nothing is timed meanwhile."""
    views, stage, session, verdicts = places.views, places.stage, places.session, places.tools.verdicts
    takes = [views[key].take for key in CARDS]
    quick = {"show_progress": "hidden", "queue": False}
    for key in CARDS:
        views[key].take.input(
            _shower(key), [views[key].take, session], views[key].spoken, **quick,
            api_name=f"show_{key}_take", api_description=f"One of the takes of the card {key.upper()}, by its number from 1.",
        )  # fmt: skip
    private = {"trigger_mode": "always_last", "api_visibility": "private", **quick}
    gr.on([page.load, session.change, verdicts.change], stage_value, [session, verdicts], stage, **private)
    gr.on(
        [details.expand, session.change, verdicts.change, *(take.change for take in takes)],
        lambda session, verdicts, *numbers: draw(session, verdicts, dict(zip(CARDS, numbers, strict=True)), curves),
        [session, verdicts, *takes], [place for key in CARDS for place in views[key].drawn], **private,
    )  # fmt: skip


def _wire_form(synthesizer: Synthesizer, places: ComparePlaces, runs: Sequence[Dependency], page: gr.Blocks) -> None:
    controls, named = places.controls, places.controls.named
    private = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}

    def told(turn: Turn) -> Updates:
        finished = turn.stopped
        kept = {places.session: finished} if finished else {}
        return {controls.status: message_html(stopped(finished)), places.stage: gr.update(live=None), **kept}

    # In two steps: what the run sent last may reach the page after the answer to the first.
    halted = controls.stop.click(lambda turn: turn.stop(), places.tools.turn, None, cancels=list(runs), **private)
    queued = {**private, "queue": True, "concurrency_limit": None}  # nowhere else gradio tells the page of a changed state
    halted.then(told, places.tools.turn, [controls.status, places.stage, places.session], **queued)
    named["recording"].clear(lambda: "", None, named["transcript"], **private)
    voices = tuple(synthesizer.voice.references)
    named["recording"].change(partial(voice_update, voices), named["recording"], named["voice"], **private)

    def describe(theta: float, similarity: str) -> str:
        with showing_errors():
            return describe_groups(synthesizer, theta, similarity)

    # Also what another tab, a preset or a take gives back moves theta.
    gr.on(
        [page.load, named["theta"].change, named["similarity"].change],
        describe, [named["theta"], named["similarity"]], controls.groups, queue=False, show_progress="hidden",
        trigger_mode="always_last", api_name="groups", api_description="The number and the mean size of the groups at a theta.",
    )  # fmt: skip
