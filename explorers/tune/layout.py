"""The take in hand: its tokens with the test behind each, its figures, and estimates for other settings."""

from dataclasses import dataclass
from functools import partial

import gradio as gr
from gradio.blocks import Block

from explorers.errors import showing_errors
from explorers.groups.layout import MapView, look
from explorers.session import Session, ShownTake
from explorers.shared.blocks import DECODING, json_drawer
from explorers.shared.ribbon import legend_html
from explorers.tune.actions import group_of, show, study, take_in_hand, time_steps
from explorers.tune.computer import create_computer
from explorers.tune.figures import figures_html, what_if_html
from explorers.tune.measured import Bench
from explorers.tune.strip import GROUP, LOCATE, create_strip
from explorers.tune.strip.link import link_prop
from explorers.turn import Turn
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin
from pcg.takes.take import KINDS

WHAT_IF = '<header class="title"><h2>What if<small>estimates for other settings</small></h2></header>'
FIGURES = "Figures of this take: speed, bound, acceptance, time"
Updates = dict[Block, object]


class Looked(Turn):
    """Counts what the strip has shown; `shown` is the take that it shows now, `studied` the one whose curves it has."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: ShownTake | None = None
        self.studied: ShownTake | None = None


@dataclass(frozen=True)
class InHand:
    """Where the take in hand is shown, what was measured on it (`bench`), and the number of what is shown (`turn`)."""

    heading: gr.HTML
    strip: gr.HTML
    figures: gr.HTML
    measure: gr.Button
    what_if: gr.HTML
    record: gr.JSON
    bench: gr.State
    turn: gr.State


def create_in_hand(synthesizer: Synthesizer) -> InHand:
    """Lay the section out within the Blocks that is being built."""
    codec = synthesizer.voice.codec
    with gr.Column(elem_classes="lab-card", elem_id="in-hand"):
        heading = gr.HTML(heading_html(Session(), "pcg"), apply_default_css=False, elem_id="in-hand-heading")
        gr.HTML(legend_html(tuple(kind for kind in KINDS if kind != "redrawn")), apply_default_css=False)
        strip = create_strip(codec.sample_rate, codec.hop)
    with gr.Accordion(FIGURES, open=False, elem_id="tune-more"):
        with gr.Column(elem_classes="lab-card"):
            figures = gr.HTML(figures_html(Bench()), apply_default_css=False, elem_id="tune-figures")
            with gr.Row():
                measure = gr.Button("Measure the bound", elem_id="tune-measure", size="sm", scale=0, min_width=160)
        with gr.Column(elem_classes="lab-card"):
            gr.HTML(WHAT_IF, apply_default_css=False)
            what_if = gr.HTML(what_if_html(Bench()), apply_default_css=False, elem_id="tune-what-if")
        create_computer(synthesizer)
        record = json_drawer("tune-record")
    return InHand(heading, strip, figures, measure, what_if, record, gr.State(Bench()), gr.State(Looked()))


def wire_in_hand(
    synthesizer: Synthesizer, origin: Origin, places: InHand, session: gr.State, key: gr.Radio, page: gr.Blocks
) -> None:
    """Show the take in hand, that of the card `key` or of the history, when the page opens and whenever it is another one;
    study it afterwards, in the queue of everything that is timed. `origin` goes into the links to its rounds."""
    told = {"show_progress": "hidden", "api_visibility": "private", "trigger_mode": "always_last"}
    inputs = [key, session, places.bench, places.turn]
    bench, record, figures, what_if = places.bench, places.record, places.figures, places.what_if

    lent = [on_gpu(partial(work, synthesizer), lambda session, key, *_: _seconds(session, key)) for work in (study, time_steps)]
    studied, timed = lent

    def look_at(key: str, session: Session, held: Bench, turn: Looked) -> Updates:
        with showing_errors():
            take = take_in_hand(session, key)
            if take is None or take is turn.shown:
                return {places.heading: heading_html(session, key)}
            shown = show(synthesizer, session, key, held, turn.next())
        turn.shown = take
        link = link_prop(take, origin, synthesizer.voice.references)
        strip = gr.update(run={**shown.run, **link}, sound=shown.sound)
        return {places.heading: heading_html(session, key), places.strip: strip, **figured(shown.bench)}

    def learn(key: str, session: Session, held: Bench, turn: Looked) -> Updates:
        with showing_errors():
            take = take_in_hand(session, key)
            if take is None or take is turn.studied or take is not turn.shown:
                return {bench: gr.skip()}
            number = turn.number
            found = studied(session, key, held, number)
            if turn.number != number:  # Another take has come into hand meanwhile.
                return {bench: gr.skip()}
            turn.studied = take
        strip = {places.strip: gr.update(spoof=found.spoof)} if found.spoof else {}
        return {**strip, **figured(found.bench)}

    def measured(key: str, session: Session, held: Bench, turn: Looked) -> Updates:
        number = turn.number
        with showing_errors():
            found = timed(session, key, held)
        return figured(found) if turn.number == number else {bench: gr.skip()}

    def figured(held: Bench) -> Updates:
        return {bench: held, record: held.record(), figures: figures_html(held), what_if: what_if_html(held)}

    shown = [places.heading, places.strip, figures, what_if, bench, record]
    looking = {"fn": look_at, "inputs": inputs, "outputs": shown, "queue": False, **told}
    seen = gr.on([page.load, key.change, session.change], **looking)
    seen.then(learn, inputs, shown[1:], concurrency_id=DECODING, concurrency_limit=1, **told)

    def cluster(key: str, session: Session, event: gr.EventData) -> object:
        group = event._data.get("group") if isinstance(event._data, dict) else None
        with showing_errors():
            return gr.update(cluster=group_of(synthesizer, session, key, group))

    getattr(places.strip, GROUP)(cluster, inputs[:2], places.strip, queue=False, **told)
    places.measure.click(
        measured, inputs, [bench, record, figures, what_if], concurrency_id=DECODING, concurrency_limit=1,
        show_progress="hidden", trigger_mode="always_last", api_name="measure_bound",
        api_description="Time the steps of a round alone, at the settings of the take in hand: its figures then have a bound.",
    )  # fmt: skip


def _seconds(session: Session, key: str) -> int:
    shown = take_in_hand(session, key)
    return gpu_seconds(shown.reading.text if shown else None)


def heading_html(session: Session, key: str) -> str:
    """Which take is in hand."""
    shown = take_in_hand(session, key)
    settings = shown.reading.settings if shown else None
    which = f"{settings.method.upper()}, seed {settings.seed}" if settings else "none yet"
    return f'<header class="title"><h2>Token by token<small>{which}</small></h2></header>'


def connect_map(synthesizer: Synthesizer, strip: gr.HTML, map_view: MapView) -> None:
    """Let "Show on the map" choose the token there: the strip opens the tab, and this draws it."""

    def locate(theta: float, similarity: str, event: gr.EventData) -> list[object]:
        token = event._data.get("token") if isinstance(event._data, dict) else None
        with showing_errors():
            scene = look(synthesizer, token, None, theta, similarity)
        return [gr.update(scene=scene.prop), scene.anchor, scene.second]

    getattr(strip, LOCATE)(
        locate, [map_view.theta, map_view.similarity], [map_view.atlas, map_view.anchor, map_view.second],
        trigger_mode="multiple", concurrency_limit=None, show_progress="hidden", api_visibility="private",
    )  # fmt: skip
