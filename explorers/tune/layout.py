"""The Tune panel: one streamed take with every setting beside it and the test behind every token."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component

from explorers.compare.actions import Transcribe, new_seed
from explorers.errors import page_error, showing_errors
from explorers.groups.layout import MapView, look
from explorers.judging import Judges, transcriber, usual_judges
from explorers.session import Turn
from explorers.settings.actions import wav_file
from explorers.shared.blocks import DECODING, Form, by_name, json_drawer, parameters_of, player, recognised_update
from explorers.shared.readout import FAILED, message_html
from explorers.shared.ribbon import legend_html
from explorers.tune.actions import Spoken, TuneRequest, TuneStep, time_ar, tune, tune_again, until_halted
from explorers.tune.computer import create_computer
from explorers.tune.figures import figures_html, what_if_html
from explorers.tune.form import USED_BY, create_form, describe_groups, explain_sampler, shown_knobs
from explorers.tune.measured import Bench
from explorers.tune.strip import HALT, LOCATE, MOVED, SPEAK, create_strip
from explorers.zero_gpu import gpu_seconds, is_lent, on_gpu
from pcg.errors import PCGError
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import KINDS

TAKE_HEADING = """<header class="title"><h2>The take<small>as a file with its settings, and as JSON</small></h2></header>"""
ASKING = "#tune-run, #tune-dice"


@dataclass(frozen=True)
class TunePlaces:
    """Where a take is shown; what was measured on the visitor's page (`bench`), and the current run (`turn`)."""

    record: gr.JSON
    strip: gr.HTML
    sound: gr.Audio
    figures: gr.HTML
    measure: gr.Button
    what_if: gr.HTML
    bench: gr.State
    turn: gr.State
    newest: gr.State


@dataclass(frozen=True)
class TuneView:
    """What other panels may connect to: the strip's event LOCATE brings a token; `controls` go by the names of TuneRequest;
    `newest` holds the newest take's Stored, or None."""

    strip: gr.HTML
    controls: Mapping[str, Component]
    newest: gr.State


def create_tune(synthesizer: Synthesizer, origin: Origin, load_judges: Callable[[], Judges] | None = None) -> TuneView:
    """Lay the panel out within the Blocks that is being built; `origin` goes into the files of takes. `load_judges` is called
    when a recording comes without its transcript; without it the offline judges are loaded then."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = create_form(synthesizer)
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            places = _places(synthesizer)
    _wire(synthesizer, origin, controls, places, transcriber(synthesizer, load_judges or usual_judges()))
    return TuneView(places.strip, controls.named, places.newest)


def connect_map(synthesizer: Synthesizer, view: TuneView, map_view: MapView) -> None:
    """Let "Show on the map" choose the token there: the strip opens the tab, and this draws it."""

    def locate(theta: float, similarity: str, event: gr.EventData) -> list[object]:
        token = event._data.get("token") if isinstance(event._data, dict) else None
        with showing_errors():
            scene = look(synthesizer, token, None, theta, similarity)
        return [gr.update(scene=scene.prop), scene.anchor, scene.second]

    getattr(view.strip, LOCATE)(
        locate, [map_view.theta, map_view.similarity], [map_view.atlas, map_view.anchor, map_view.second],
        trigger_mode="multiple", concurrency_limit=None, show_progress="hidden", api_visibility="private",
    )  # fmt: skip


def _places(synthesizer: Synthesizer) -> TunePlaces:
    codec = synthesizer.voice.codec
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(legend_html(tuple(kind for kind in KINDS if kind != "redrawn")), apply_default_css=False)
        strip = create_strip(codec.sample_rate, codec.hop, ASKING)
    with gr.Column(elem_classes="lab-card"):
        figures = gr.HTML(figures_html(Bench()), apply_default_css=False, elem_id="tune-figures")
        with gr.Row():
            measure = gr.Button("Measure AR", elem_id="tune-measure", size="sm", scale=0, min_width=140)
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(
            '<header class="title"><h2>What if<small>estimates for other settings</small></h2></header>',
            apply_default_css=False,
        )
        what_if = gr.HTML(what_if_html(Bench()), apply_default_css=False, elem_id="tune-what-if")
    create_computer(synthesizer)
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(TAKE_HEADING, apply_default_css=False)
        sound = player(synthesizer, "The take as a file", "tune-sound", show_label=None)
        record = json_drawer("tune-record")
    return TunePlaces(record, strip, sound, figures, measure, what_if, gr.State(Bench()), gr.State(Turn()), gr.State(None))


Speak = Callable[..., Iterator[TuneStep]]
Updates = dict[Block, object]


def _handler(speak: Speak, places: TunePlaces, controls: Form, origin: Origin) -> Callable[..., Iterator[Updates]]:
    """`speak` as gradio calls it: one argument for each control, and updates by component."""
    spoken = _lent(speak)

    @parameters_of(TuneRequest, "bench", "turn")
    def handle(*values: object) -> Iterator[Updates]:
        *inputs, bench, turn = values
        try:
            with closing(spoken(TuneRequest(**by_name(TuneRequest, inputs)), bench, turn)) as steps:
                for step in steps:
                    yield _updates(step, places, controls, origin)
        except PCGError as error:
            yield {controls.status: message_html(FAILED)}
            raise page_error(error) from error

    return handle


def _lent(spoken: Spoken) -> Spoken:
    """`spoken` with a GPU, where a Space lends one by the call: for the take, and as long again to estimate or to measure."""
    if not is_lent():
        return spoken
    return partial(until_halted, on_gpu(spoken, lambda request, bench, turn: gpu_seconds(request.text, takes=2)))


def _updates(step: TuneStep, places: TunePlaces, controls: Form, origin: Origin) -> Updates:
    updates: Updates = {controls.status: step.status}
    if props := {name: value for name in ("run", "sound", "spoof") if (value := getattr(step, name)) is not None}:
        updates[places.strip] = gr.update(**props)
    if step.seed is not None:
        updates[controls.named["seed"]] = step.seed
    if step.recognised is not None:
        updates[controls.named["transcript"]] = recognised_update(step.recognised)
    if bench := step.bench:
        updates |= {places.record: bench.record(), places.figures: figures_html(bench), places.bench: bench}
    if bench and (bench.estimate or not step.take):
        updates[places.what_if] = what_if_html(bench)
    if take := step.take:
        stored = Stored.of(take, origin, step.reference, streamed=True)
        file = str(wav_file(take, stored, Path(places.sound.GRADIO_CACHE))) if len(take.audio) else None
        updates |= {places.sound: file, places.newest: stored}
    return updates


def _halt(turn: Turn) -> None:
    turn.next()


def _wire(synthesizer: Synthesizer, origin: Origin, controls: Form, places: TunePlaces, transcribe: Transcribe) -> None:
    named, strip = controls.named, places.strip

    def handler(speak: Speak) -> Callable[..., Iterator[Updates]]:
        return _handler(partial(speak, synthesizer, transcribe=transcribe), places, controls, origin)

    speaking = {
        "inputs": [*controls.inputs, places.bench, places.turn],
        "outputs": [
            places.record, controls.status, strip, places.sound, places.figures, places.what_if, named["seed"], places.bench,
            places.newest, named["transcript"],
        ],
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }  # fmt: skip
    gr.on(
        [controls.run.click, named["text"].submit], handler(tune), api_name="tune",
        api_description="Generate one take; streams its figures as JSON first of all, then the status, tokens and sound as "
        "they come, the take as a file, and what it would have accepted with other settings. An empty seed is random.",
        **speaking,
    )  # fmt: skip
    getattr(strip, SPEAK)(handler(tune_again), api_visibility="private", **speaking)
    places.measure.click(
        handler(time_ar), api_name="measure_ar",
        api_description="Measure AR with the same text, voice and temperature, and time the steps of a round alone: the newest "
        "take's figures then have a speed-up and a bound.",
        **speaking,
    )  # fmt: skip
    quick = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    getattr(strip, HALT)(_halt, places.turn, None, **quick)
    controls.stop.click(_halt, places.turn, None, **quick)
    knobs = ("method", *USED_BY, "sampler", "top_k", "top_p")
    gr.on([named[name].input for name in knobs], None, None, None, js=MOVED, **quick)
    named["sampler"].input(explain_sampler, named["sampler"], named["sampler"], **quick)
    rolled = controls.dice.click(new_seed, None, named["seed"], **quick)
    rolled.then(handler(tune_again), api_visibility="private", **speaking)
    shown = [named[name] for name in ("method", *USED_BY)]
    named["method"].input(lambda method: shown_knobs(method, named), named["method"], shown, **quick)
    gr.on(
        [named["theta"].change, named["similarity"].change],
        lambda theta, similarity: describe_groups(synthesizer, theta, similarity),
        [named["theta"], named["similarity"]], controls.groups,
        trigger_mode="always_last", show_progress="hidden", api_visibility="private",
    )  # fmt: skip
