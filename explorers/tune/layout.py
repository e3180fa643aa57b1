"""The take in hand: its tokens with the test behind each, its figures, and estimates for other settings."""

from collections.abc import Iterator
from contextlib import closing

import gradio as gr
from gradio.blocks import Block

from explorers.errors import showing_errors
from explorers.groups.layout import MapView, look
from explorers.session import Session, Turn
from explorers.shared.blocks import DECODING, json_drawer
from explorers.shared.ribbon import legend_html
from explorers.tune.actions import show, take_in_hand, time_steps
from explorers.tune.computer import create_computer
from explorers.tune.figures import figures_html, what_if_html
from explorers.tune.measured import Bench
from explorers.tune.strip import LOCATE, create_strip
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import KINDS

SHOWING = "showing"
WHAT_IF = '<header class="title"><h2>What if<small>estimates for other settings</small></h2></header>'
FIGURES = "Figures of this take: speed, bound, acceptance, time"
Updates = dict[Block, object]


def create_in_hand(synthesizer: Synthesizer, session: gr.State, in_hand: gr.State) -> gr.HTML:
    """Lay the section out within the Blocks that is being built, and return its strip. in_hand: holds the key of the card whose
    first take is shown."""
    codec, bench, turn = synthesizer.voice.codec, gr.State(Bench()), gr.State(Turn())
    with gr.Column(elem_classes="lab-card", elem_id="in-hand"):
        heading = gr.HTML(heading_html(session.value, in_hand.value), apply_default_css=False, elem_id="in-hand-heading")
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

    def look_at(key: str, session: Session, bench: Bench, turn: Turn) -> Iterator[Updates]:
        number = turn.next()
        with showing_errors(), closing(show(synthesizer, session, key, bench, number)) as steps:
            for step in steps:
                updates: Updates = {}
                if props := {name: value for name in ("run", "sound", "spoof") if (value := getattr(step, name)) is not None}:
                    updates[strip] = gr.update(**props)
                if not step.spoof:
                    updates |= {heading: heading_html(session, key), figures: figures_html(step.bench)}
                    updates |= {bench_state: step.bench, record: step.bench.record(), what_if: what_if_html(step.bench)}
                yield updates
                if turn.number != number:  # Another take is in hand: the analysis of this one is of no use.
                    return

    bench_state = bench
    # Without `queue=False`, as it takes a second; in a line of its own, so that no take waits for it.
    gr.on(
        [session.change, in_hand.change], look_at, [in_hand, session, bench, turn],
        [heading, strip, figures, what_if, bench, record],
        trigger_mode="always_last", concurrency_id=SHOWING, concurrency_limit=2, show_progress="hidden",
        api_visibility="private",
    )  # fmt: skip

    def measured(key: str, session: Session, bench: Bench) -> Updates:
        with showing_errors():
            timed = time_steps(synthesizer, session, key, bench)
        return {bench_state: timed, figures: figures_html(timed), record: timed.record()}

    measure.click(
        measured, [in_hand, session, bench], [record, bench, figures], concurrency_id=DECODING, concurrency_limit=1,
        api_name="measure_bound",
        api_description="Time the steps of a round alone, at the settings of the take in hand: its figures then have a bound.",
    )  # fmt: skip
    return strip


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
