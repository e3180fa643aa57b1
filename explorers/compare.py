"""Say it four ways: one text, four decoders, side by side, with the knobs that tell them apart."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

from explorers.components.readout import card_html, message_html, title_html
from explorers.components.ribbon import legend_html, ribbon_html
from explorers.example import Example
from explorers.keeping import wav_file
from explorers.reading import Reading, Session
from explorers.speaking import Request, Step, describe_groups, new_seed, say_again, say_four_ways
from explorers.telling import telling, told
from explorers.theme import SOUND_COLOUR, WAVE_COLOUR
from pcg.errors import PCGError
from pcg.prompt import Reference
from pcg.settings import METHODS, RANGES, Settings
from pcg.stored import Origin, Stored
from pcg.synthesizer import Synthesizer
from pcg.take import Take
from pcg.text import MAX_CHARACTERS

DECODING = "decoding"
READY = "Ready."
RECORDED = "An example, recorded earlier. Say it yourself, or move a knob."
STOPPED = "Stopped. Finished takes stay."
FAILED = "That did not work. Everything on the page is as it was."
KNOBS = {
    "theta": (
        "Theta",
        "How alike tokens must be to share a group. Lower: larger groups, more guesses pass, looser speech. "
        "Moving it says PCG again.",
    ),
    "lookahead": ("Lookahead", "Tokens the small model guesses before each check. Moving it says PCG again."),
    "beta": ("Beta", "How lenient SSD is: at 0 it is SD, at 1 every guess passes. Moving it says SSD again."),
    "temperature": ("Temperature", "How freely both models choose: low is steady, high is lively."),
}


Keep = Callable[[Take, Reference | None], Path]


def _handler(speak: Callable[[Request, Session], Iterator[Step]], keep: Keep) -> Callable[..., Iterator[list[object]]]:
    """`speak` as gradio calls it: one argument a control, one update a place on the page."""

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
        session: Session,
    ) -> Iterator[list[object]]:
        request = Request(text, voice, theta, lookahead, beta, temperature, seed, recording, transcript, consent)
        try:
            with closing(speak(request, session)) as steps:
                for step in steps:
                    yield _updates(step, keep)
        except PCGError as error:
            yield [message_html(FAILED), *[gr.skip()] * (1 + 3 * len(METHODS))]
            raise told(error) from error

    return handle


def _groups_handler(synthesizer: Synthesizer) -> Callable[[float], str]:
    def describe(theta: float) -> str:
        with telling():
            return describe_groups(synthesizer, theta)

    return describe


def _updates(step: Step, keep: Keep) -> list[object]:
    """The status, the session, and sound, figures and strip of every card."""
    updates: list[object] = [step.status, step.session]
    for method in METHODS:
        card = step.session.cards.get(method)
        if step.take is not None and step.take.settings.method == method:
            sound = str(keep(step.take, step.reference)) if len(step.take.audio) else None
            updates += [sound, card_html(card), _strip(card.reading)]
        else:
            updates += [gr.skip(), card_html(card) if card and step.marks else gr.skip(), gr.skip()]
    return updates


def _strip(reading: Reading) -> str:
    return ribbon_html(reading.method, reading.kinds, reading.group_sizes, len(reading.kinds) / (reading.audio_seconds or 1))


@dataclass(frozen=True)
class Controls:
    """The left-hand side. `inputs` stand in the order of Request."""

    inputs: list[Component]
    run: gr.Button
    stop: gr.Button
    dice: gr.Button
    status: gr.HTML
    groups: gr.HTML

    @property
    def named(self) -> dict[str, Component]:
        return dict(zip((f.name for f in fields(Request)), self.inputs, strict=True))


@dataclass(frozen=True)
class CardView:
    """The places of one take on the page."""

    sound: gr.Audio
    readout: gr.HTML
    ribbon: gr.HTML


def create_compare(
    synthesizer: Synthesizer, origin: Origin, session: gr.State, example: Example | None = None
) -> Mapping[str, Component]:
    """Lay the panel out within the Blocks that is being built; return its controls by the names of Request. `session` holds a
    Session: the takes that the page shows; `origin` goes into the files of new ones."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer, example)
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            gr.HTML(legend_html(), apply_default_css=False)
            views = _cards(synthesizer, session.value, example)
    cache = Path(views["ar"].sound.GRADIO_CACHE)

    def keep(take: Take, reference: Reference | None) -> Path:
        return wav_file(take, Stored.of(take, origin, reference), cache)

    _wire(synthesizer, controls, views, session, keep)
    return controls.named


def _controls(synthesizer: Synthesizer, example: Example | None) -> Controls:
    shown = example.readings["pcg"] if example else None
    settings = shown.settings if shown else Settings()
    voices = list(synthesizer.voice.references)
    with gr.Column(elem_classes="lab-desk"):
        text = gr.Textbox(
            shown.text if shown else "", label="Text", lines=3, max_lines=8, max_length=MAX_CHARACTERS,
            placeholder="English, up to a few sentences", elem_id="text",
        )  # fmt: skip
        voice = gr.Dropdown(voices, value=shown.voice if shown and shown.voice in voices else voices[0], label="Voice")
        recording, transcript, consent = _own_voice()
        with gr.Row():
            run = gr.Button("Say it four ways", variant="primary", elem_id="run", scale=3)
            stop = gr.Button("Stop", elem_id="stop", scale=1, min_width=80)
        status = gr.HTML(message_html(RECORDED if example else READY), apply_default_css=False, elem_id="status")
    with gr.Column(elem_classes="lab-desk"):
        theta = _slider("theta", settings)
        groups = gr.HTML(describe_groups(synthesizer, settings.theta), apply_default_css=False, elem_id="groups")
        lookahead = _slider("lookahead", settings)
        beta = _slider("beta", settings)
    with gr.Column(elem_classes="lab-desk"):
        temperature = _slider("temperature", settings)
        with gr.Row(elem_classes="lab-seed"):
            seed = gr.Number(settings.seed, label="Seed", precision=0, scale=3, elem_id="seed")
            dice = gr.Button("⚄ Roll", elem_id="dice", size="md", scale=1, min_width=80)
    inputs = [text, voice, theta, lookahead, beta, temperature, seed, recording, transcript, consent]
    return Controls(inputs, run, stop, dice, status, groups)


def _own_voice() -> tuple[gr.Audio, gr.Textbox, gr.Checkbox]:
    with gr.Accordion("Another voice, from a recording", open=False):
        recording = gr.Audio(sources=["upload", "microphone"], type="filepath", label="1 to 10 seconds of one speaker")
        transcript = gr.Textbox("", label="What is said in it", lines=2, max_length=MAX_CHARACTERS)
        consent = gr.Checkbox(label="Its speaker agrees to have this voice imitated.")
    return recording, transcript, consent


def _slider(name: str, settings: Settings) -> gr.Slider:
    (label, info), allowed, value = KNOBS[name], RANGES[name], getattr(settings, name)
    # No reset button: it would move the knob without telling that a person did.
    return gr.Slider(allowed.low, allowed.high, value, step=allowed.step, label=label, info=info, buttons=[], elem_id=name)


def _cards(synthesizer: Synthesizer, session: Session, example: Example | None) -> dict[str, CardView]:
    views = {}
    for pair in (METHODS[:2], METHODS[2:]):
        with gr.Row(equal_height=True, elem_classes="lab-pair"):
            for method in pair:
                with gr.Column(min_width=340, elem_classes="lab-card", elem_id=f"card-{method}"):
                    views[method] = _card(synthesizer, method, session, example)
    return views


def _card(synthesizer: Synthesizer, method: str, session: Session, example: Example | None) -> CardView:
    card, codec = session.cards.get(method), synthesizer.voice.codec
    gr.HTML(title_html(method), apply_default_css=False)
    readout = gr.HTML(card_html(card), apply_default_css=False, elem_id=f"readout-{method}")
    sound = gr.Audio(
        example.sounds[method] if example else None, label=method.upper(), show_label=False, interactive=False,
        editable=False, buttons=["download"], container=False, elem_id=f"sound-{method}",
        waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR, sample_rate=codec.sample_rate),
    )  # fmt: skip
    ribbon = gr.HTML(_strip(card.reading) if card else "", apply_default_css=False, elem_id=f"ribbon-{method}")
    return CardView(sound, readout, ribbon)


def _wire(synthesizer: Synthesizer, controls: Controls, views: Mapping[str, CardView], session: gr.State, keep: Keep) -> None:
    named = controls.named
    places = [place for view in views.values() for place in (view.sound, view.readout, view.ribbon)]
    decoding = {
        "inputs": [*controls.inputs, session],
        "outputs": [controls.status, session, *places],
        "show_progress": "hidden",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }

    def again(method: str, *knobs: Component) -> Dependency:
        return gr.on(
            # `input` and not `change`: the page's own settings of a knob must not start a take.
            [knob.input for knob in knobs],
            _handler(partial(say_again, synthesizer, method), keep),
            trigger_mode="always_last",
            api_name=f"say_{method}_again",
            api_description=f"Say the text with {method.upper()} alone.",
            **decoding,
        )

    runs = [
        gr.on(
            [controls.run.click, named["text"].submit],
            _handler(partial(say_four_ways, synthesizer), keep),
            api_name="say_four_ways",
            api_description="Say the text with AR, SD, SSD and PCG; streams progress, then each take.",
            **decoding,
        ),
        again("pcg", named["theta"], named["lookahead"]),
        again("ssd", named["beta"]),
    ]
    controls.stop.click(
        lambda: message_html(STOPPED), None, controls.status, cancels=runs, queue=False, api_visibility="private"
    )
    controls.dice.click(
        new_seed, None, named["seed"], queue=False, api_name="new_seed", api_description="Roll the dice for a seed."
    )
    named["theta"].change(
        _groups_handler(synthesizer), named["theta"], controls.groups,
        trigger_mode="always_last", show_progress="hidden",
        api_name="groups", api_description="Tell the number and the mean size of the groups at a theta.",
    )  # fmt: skip
