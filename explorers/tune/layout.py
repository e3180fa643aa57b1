"""Tune: one take at a time, heard while it is spoken, with every knob beside it and the test behind every token."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gradio as gr
from gradio.components import Component

from explorers.compare.actions import new_seed
from explorers.compare.layout import DECODING
from explorers.errors import telling, told
from explorers.groups.layout import SIMILARITY_NAMES, MapView, look
from explorers.session import Turn
from explorers.settings.actions import wav_file
from explorers.shared.controls import Desk, knob, own_voice, run_and_stop, seed_and_dice, text_box, voice_choice
from explorers.shared.readout import EXPLANATIONS, TITLES, groups_html, message_html
from explorers.shared.ribbon import legend_html
from explorers.shared.terms import term_info
from explorers.theme import SOUND_COLOUR, WAVE_COLOUR
from explorers.tune.actions import Request, Spoken, Step, time_ar, tune, tune_again, until_halted
from explorers.tune.computer import create_computer
from explorers.tune.figures import figures_html, what_if_html
from explorers.tune.measured import Bench
from explorers.tune.strip import HALT, LOCATE, MOVED, SPEAK, create_strip
from explorers.zero_gpu import gpu_seconds, is_lent, on_gpu
from pcg.errors import PCGError
from pcg.settings import METHODS, RANGES, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import KINDS

SAMPLERS = {
    "plain": ("Plain", "Softmax at the temperature."),
    "ras": (
        "RAS",
        f"{term_info('ras', 'Repetition-aware')}: what filled the last 25 too often is drawn again.",
    ),
    "eas": ("EAS", f"{term_info('eas', 'Entropy-aware')}: tokens that lately led or were spoken weigh less."),
}
TEXT = "The quick brown fox jumps over the lazy dog."
TAKE_HEADING = """<header class="title"><h2>The take<small>as a file with its settings, and as JSON</small></h2></header>"""
READY = "Say the text, then move theta or lookahead: each move says it again."
FAILED = "That did not work. Everything on the page is as it was."
ASKING = "#tune-run, #tune-dice"
USED_BY = {
    "theta": ("pcg",), "similarity": ("pcg",), "beta": ("ssd",), "lookahead": ("sd", "ssd", "pcg"),
    "adaptive": ("sd", "ssd", "pcg"), "temperature": METHODS,
}  # fmt: skip
INFO = {
    "theta": f"Tokens {term_info('theta', 'more alike than this')} share a {term_info('group')}. Lower: larger groups, more "
    "drafts pass, looser speech.",
    "lookahead": f"Tokens {term_info('lookahead', 'drafted')} before each check by the target.",
    "beta": f"Accept if {term_info('coin')} < min(1, q/p) + {term_info('beta')}. At 0 it is SD, at 1 every draft passes.",
    "temperature": f"{term_info('temperature', 'Divides the logits')} of both models: low is steady, high is lively.",
    "top_k": "Keep this many of the likeliest tokens. 0: all, or 50 with RAS and EAS.",
    "top_p": "Of these keep the first that hold this share. 0: all, or 0.8 with RAS and EAS.",
    "adaptive": f"{term_info('adaptive', 'Draft fewer tokens')} where the draft is unsure.",
}


@dataclass(frozen=True)
class Places:
    """Where a take is shown, and what the visitor's page has measured (`bench`) and is doing (`turn`)."""

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
    """What other panels may connect to: the strip's event LOCATE brings a token; `controls` go by the names of Request;
    `newest` holds the newest take's Stored, or None."""

    strip: gr.HTML
    controls: Mapping[str, Component]
    newest: gr.State


def create_tune(synthesizer: Synthesizer, origin: Origin) -> TuneView:
    """Lay the panel out within the Blocks that is being built; `origin` goes into the files of takes."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer)
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            places = _places(synthesizer)
    _wire(synthesizer, origin, controls, places)
    return TuneView(places.strip, controls.named, places.newest)


def connect_map(synthesizer: Synthesizer, view: TuneView, map_view: MapView) -> None:
    """Let "Show on the map" choose the token there: the strip opens the tab, and this draws it."""

    def locate(theta: float, similarity: str, event: gr.EventData) -> list[object]:
        token = event._data.get("token") if isinstance(event._data, dict) else None
        with telling():
            scene = look(synthesizer, token, None, theta, similarity)
        return [gr.update(scene=scene.prop), scene.anchor, scene.second]

    getattr(view.strip, LOCATE)(
        locate, [map_view.theta, map_view.similarity], [map_view.atlas, map_view.anchor, map_view.second],
        trigger_mode="multiple", concurrency_limit=None, show_progress="hidden", api_visibility="private",
    )  # fmt: skip


def _controls(synthesizer: Synthesizer) -> Desk:
    settings = Settings() if Settings().method in synthesizer.methods else Settings("ar")
    with gr.Column(elem_classes="lab-desk"):
        text = text_box("tune-", TEXT, lines=2, max_lines=6)
        voice = voice_choice(synthesizer, "tune-")
        recording, transcript, consent = own_voice(synthesizer, "tune-")
        method = gr.Radio(
            [(TITLES[m][0], m) for m in METHODS], value=settings.method, label="Method", info=EXPLANATIONS[settings.method],
            elem_id="tune-method",
        )  # fmt: skip
        run, stop = run_and_stop("tune-", "Say it")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="tune-status")
    with gr.Column(elem_classes="lab-desk"):
        theta = _slider("theta", settings)
        groups = gr.HTML(_describe(synthesizer, settings.theta, settings.similarity), apply_default_css=False)
        similarity = gr.Dropdown(
            [(SIMILARITY_NAMES[key], key) for key in synthesizer.library.similarities], value=settings.similarity,
            label="Alike by", elem_id="tune-similarity", visible=settings.method in USED_BY["similarity"],
        )  # fmt: skip
        beta = _slider("beta", settings)
        lookahead = _slider("lookahead", settings)
        adaptive = gr.Checkbox(
            settings.adaptive, label="Adaptive lookahead", info=INFO["adaptive"],
            elem_id="tune-adaptive", visible=settings.method in USED_BY["adaptive"],
        )  # fmt: skip
    with gr.Column(elem_classes="lab-desk"):
        temperature = _slider("temperature", settings)
        seed, dice = seed_and_dice("tune-", settings.seed, "Seed (empty: rolled)")
        law = _sampling_law(settings)
    inputs = [text, voice, method, theta, lookahead, beta, similarity, temperature, seed, adaptive]
    return Desk(Request, [*inputs, recording, transcript, consent, *law], run, stop, dice, status, groups)


def _sampling_law(settings: Settings) -> tuple[gr.Radio, gr.Slider, gr.Slider]:
    """The law that draft and target share, whatever the method."""
    with gr.Accordion("Sampling law", open=False, elem_id="tune-law"):
        sampler = gr.Radio(
            [(title, name) for name, (title, _) in SAMPLERS.items()], value=settings.sampler, label="Sampler",
            info=SAMPLERS[settings.sampler][1], elem_id="tune-sampler",
        )  # fmt: skip
        return sampler, _slider("top_k", settings), _slider("top_p", settings)


def _slider(name: str, settings: Settings) -> gr.Slider:
    return knob(name, settings, "tune-", INFO[name], visible=settings.method in USED_BY.get(name, METHODS))


def _places(synthesizer: Synthesizer) -> Places:
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
            '<header class="title"><h2>What if<small>other settings, same take</small></h2></header>', apply_default_css=False
        )
        what_if = gr.HTML(what_if_html(Bench()), apply_default_css=False, elem_id="tune-what-if")
    create_computer(synthesizer)
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(TAKE_HEADING, apply_default_css=False)
        sound = gr.Audio(
            label="The take as a file", interactive=False, editable=False, buttons=["download"], container=False,
            elem_id="tune-sound",
            waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR, sample_rate=codec.sample_rate),
        )  # fmt: skip
        with gr.Accordion("As JSON", open=False):
            record = gr.JSON(show_label=False, elem_id="tune-record", max_height=320)
    return Places(record, strip, sound, figures, measure, what_if, gr.State(Bench()), gr.State(Turn()), gr.State(None))


Speak = Callable[[Synthesizer, Request, Bench, Turn], Iterator[Step]]


def _handler(synthesizer: Synthesizer, origin: Origin, cache: Path, speak: Speak) -> Callable[..., Iterator[list[object]]]:
    """`speak` as gradio calls it: one argument a control, one update a place on the page. Files go into `cache`."""
    spoken = _lent(partial(speak, synthesizer))

    def handle(
        text: str,
        voice: str,
        method: str,
        theta: float,
        lookahead: int,
        beta: float,
        similarity: str,
        temperature: float,
        seed: int | None,
        adaptive: bool,
        recording: str | None,
        transcript: str,
        consent: bool,
        sampler: str,
        top_k: int,
        top_p: float,
        bench: Bench,
        turn: Turn,
    ) -> Iterator[list[object]]:
        knobs = (method, theta, lookahead, beta, similarity, temperature, seed, adaptive)
        try:
            request = Request(text, voice, *knobs, recording, transcript, consent, sampler, top_k, top_p)
            with closing(spoken(request, bench, turn)) as steps:
                for step in steps:
                    yield _updates(step, origin, cache)
        except PCGError as error:
            yield [gr.skip(), message_html(FAILED), *[gr.skip()] * 7]
            raise told(error) from error

    return handle


def _lent(spoken: Spoken) -> Spoken:
    """`spoken` with a GPU, where a Space lends one by the call: to speak the text, and to estimate or measure as much again."""
    if not is_lent():
        return spoken
    return partial(until_halted, on_gpu(spoken, lambda request, bench, turn: gpu_seconds(request.text, takes=2)))


def _updates(step: Step, origin: Origin, cache: Path) -> list[object]:
    """In the order of the outputs: record, status, strip, file, figures, estimates, seed, bench, and what rebuilds the take."""
    props = {name: value for name in ("run", "sound", "spoof") if (value := getattr(step, name)) is not None}
    bench, take = step.bench, step.take
    stored = Stored.of(take, origin, step.reference, streamed=True) if take else None
    return [
        bench.record() if bench else gr.skip(),
        step.status,
        gr.update(**props) if props else gr.skip(),
        (str(wav_file(take, stored, cache)) if len(take.audio) else None) if take else gr.skip(),
        figures_html(bench) if bench else gr.skip(),
        what_if_html(bench) if bench and (bench.estimate or not take) else gr.skip(),
        gr.skip() if step.seed is None else step.seed,
        bench if bench else gr.skip(),
        stored if stored else gr.skip(),
    ]


def _describe(synthesizer: Synthesizer, theta: float, similarity: str) -> str:
    with telling():
        RANGES["theta"].check("theta", theta)
        return groups_html(theta, synthesizer.statistics(theta, similarity))


def _halt(turn: Turn) -> None:
    turn.next()


def _knobs_of(method: str) -> list[object]:
    """Explain the method, and show the knobs that it looks at."""
    if method not in METHODS:
        return [gr.skip()] * 6
    shown = [gr.update(visible=method in USED_BY[name]) for name in ("theta", "similarity", "beta", "lookahead", "adaptive")]
    return [gr.update(info=EXPLANATIONS[method]), *shown]


def _explain_sampler(sampler: str) -> object:
    return gr.update(info=SAMPLERS[sampler][1]) if sampler in SAMPLERS else gr.skip()


def _wire(synthesizer: Synthesizer, origin: Origin, controls: Desk, places: Places) -> None:
    named, strip = controls.named, places.strip
    handler = partial(_handler, synthesizer, origin, Path(places.sound.GRADIO_CACHE))
    speaking = {
        "inputs": [*controls.inputs, places.bench, places.turn],
        "outputs": [
            places.record, controls.status, strip, places.sound, places.figures, places.what_if, named["seed"], places.bench,
            places.newest,
        ],
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }  # fmt: skip
    gr.on(
        [controls.run.click, named["text"].submit], handler(tune), api_name="tune",
        api_description="Speak one take; streams its figures as JSON first of all, then the status, tokens and sound as "
        "they come, the take as a file, and what it would have accepted with other settings. An empty seed is rolled.",
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
    named["sampler"].input(_explain_sampler, named["sampler"], named["sampler"], **quick)
    rolled = controls.dice.click(new_seed, None, named["seed"], **quick)
    rolled.then(handler(tune_again), api_visibility="private", **speaking)
    shown = [named[name] for name in ("method", "theta", "similarity", "beta", "lookahead", "adaptive")]
    named["method"].input(_knobs_of, named["method"], shown, **quick)
    gr.on(
        [named["theta"].change, named["similarity"].change],
        lambda theta, similarity: _describe(synthesizer, theta, similarity),
        [named["theta"], named["similarity"]], controls.groups,
        trigger_mode="always_last", show_progress="hidden", api_visibility="private",
    )  # fmt: skip
