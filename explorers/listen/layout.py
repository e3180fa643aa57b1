"""The first tab: one text by every method. One handler, `generate`, yields one JSON value, and the stage draws it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import gradio as gr
import numpy as np
from gradio.blocks import Block
from gradio.components import Component

from explorers.errors import page_error, plain, showing_errors
from explorers.judging import Judges
from explorers.listen import share
from explorers.listen.actions import ALL, Request, Speaker, generate, recording_note, stopped
from explorers.listen.example import Example
from explorers.listen.value import stage_value, study_of
from explorers.session import Session, Turn
from explorers.shared.controls import DECODING, PRIVATE, event_values, setting, text_box, with_parameters
from explorers.shared.readout import message_html
from explorers.shared.verdict import shipped
from explorers.zero_gpu import gpu_seconds, is_lent, on_gpu
from pcg.errors import PCGError
from pcg.saved_take import Origin, Stored
from pcg.serving.speech_service import SpeechService
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from pcg.text.prompt import Reference

HERE = Path(__file__).parent
SCRIPTS = ("script", "deck", "pieces", "bars", "one_sound", "sound", "lanes", "tokens", "more", "stage")
"""Gradio runs them joined, as the body of one function."""
FIRST = ("theta", "lookahead", "beta", "temperature", "seed")
ASKED = ("text", "voice", "method", "recording", "transcript", "consent")
TUNED = tuple(name for name in Settings.model_fields if name not in ("method", *share.NO_CONTROL))
MOVED = ("text", "voice", "recording", *TUNED)
"""The controls that a take, a link or a preset moves."""
TRANSCRIPT = "Leave it empty to let the recogniser transcribe the recording. A longer recording is then cut at a pause."
EXAMPLES = ("Could you tell me the way?", "It costs $4.99.", "She sells sea shells.")
READY = "Ready."
RECORDED = "A recorded example: press Play, or type a text and press Generate."
SPEAKING, VISITORS = "speaking", 24
"""Visitors whose takes wait for one another in a SpeechService; more wait in gradio's queue."""
POSITIONS = 2048
AT_ONCE = 4
WITH_METHOD = """(...values) => {
  const stage = document.querySelector(".stage");
  values[METHOD] = stage.dataset.method || "all";
  delete stage.dataset.method;
  return values;
}"""
"""The stage says which method runs again; a press on Generate runs all."""
ROLL = """() => {
  setTimeout(() => document.dispatchEvent(new CustomEvent("knob-moved")));
  return Math.floor(10000 * Math.random());
}"""
Updates = dict[Block, object]


def create_listen(
    page: gr.Blocks,
    synthesizer: Synthesizer,
    origin: Origin,
    session: gr.State,
    load_judges: Callable[[], Judges],
    example: Example | None = None,
    voice_ids: frozenset[str] = frozenset(),
) -> "Listen":
    """Lay the tab out within `page`, which is being built. session: holds a Session, at first that of the `example`;
    load_judges: called when there is something to transcribe; voice_ids: the names of the voice in the shipped results."""
    in_hand = gr.Radio(list(METHODS), value="pcg", label="Chosen take", visible=False)
    shown = session.value.cards["pcg"].take if example else None
    controls = _controls(synthesizer, shown.settings if shown else Settings(), shown.text if shown else "")
    codec = synthesizer.voice.codec
    value = partial(stage_value, synthesizer, origin, results=shipped(voice_ids), example=example)
    stage = gr.HTML(
        value(session.value, "pcg", status=RECORDED if example else READY),
        html_template=(HERE / "stage.html").read_text(encoding="utf-8"),
        js_on_load="\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS),
        apply_default_css=False,
        elem_id="stage",
        sample_rate=codec.sample_rate,
        hop=codec.hop,
        live="",
        presets=share.presets(),
    )
    cache, on_cpu = Path(stage.GRADIO_CACHE), not is_lent() and synthesizer.voice.device == "cpu"
    service = None
    if on_cpu:  # a GPU decodes one take at a time, as a running batch has no CUDA graphs
        rows, waiting = AT_ONCE * len(METHODS), VISITORS * len(METHODS)
        service = SpeechService(synthesizer, rows, POSITIONS, waiting=waiting, in_turns=True)

    def keep(take: Take, reference: Reference | None) -> Path:
        return share.wav_file(take, Stored.of(take, origin, reference), cache)

    def transcribe(samples: np.ndarray) -> str:
        return load_judges().transcribe(samples, codec.sample_rate)

    speaker = Speaker(synthesizer, keep, transcribe, service)
    tab = Listen(speaker, load_judges, value, origin, controls, stage, session, in_hand)
    _wire(page, tab)
    return tab


def _controls(synthesizer: Synthesizer, settings: Settings, text: str) -> dict[str, Component]:
    """Lay out text, voice, examples and the drawer "Tune", whose controls are made from `Settings`."""
    made: dict[str, Component] = {}
    with gr.Column(elem_id="ask", elem_classes="lab-form"):
        with gr.Row(elem_classes="ask-row", equal_height=False):
            with gr.Column(scale=1, min_width=240):
                made["text"] = text_box(text)
            with gr.Column(scale=0, min_width=150, elem_classes="ask-buttons"):
                made["run"] = gr.Button("Generate", variant="primary", elem_id="run")
                made["stop"] = gr.Button("Stop", elem_id="stop")
        with gr.Row(elem_classes="ask-chips"):
            for sentence in EXAMPLES:
                chip = gr.Button(f"“{sentence}”", size="sm", scale=0, min_width=60)
                chip.click(None, None, made["text"], js=f"() => {sentence!r}", **PRIVATE)
    with gr.Accordion("Tune", open=False, elem_id="knobs", elem_classes="lab-form"):
        with gr.Row(elem_classes="knob-row"):
            voices = list(synthesizer.voice.references)
            made["voice"] = gr.Dropdown(voices, value=voices[0], label="Voice", elem_id="voice")
            for name in FIRST:
                made[name] = setting(name, settings=settings)
            made["dice"] = gr.Button("⚄ Roll the seed", elem_id="dice", size="sm", scale=0, min_width=120)
        with gr.Accordion("More settings", open=False, elem_id="more-settings"), gr.Row(elem_classes="knob-row"):
            made |= {name: setting(name, settings=settings) for name in TUNED if name not in FIRST}
        low, high = synthesizer.voice.reference_seconds
        with gr.Accordion("Another voice, from a recording", open=False):
            made["recording"] = gr.Audio(
                sources=["upload", "microphone"], type="filepath", label=f"{low:g} to {high:g} seconds of one speaker",
                elem_id="recording",
            )  # fmt: skip
            made["transcript"] = gr.Textbox("", label="Transcript", info=TRANSCRIPT, lines=2, elem_id="transcript")
            made["consent"] = gr.Checkbox(label="The speaker agrees to the imitation of this voice.", elem_id="consent")
        made["note"] = gr.HTML("", apply_default_css=False, elem_id="recording-note")
    made["method"] = gr.Radio([ALL, *METHODS], value=ALL, label="Method", visible=False)
    return made


@dataclass(frozen=True)
class Listen:
    """The tab: its handlers, and what other panels connect to.

    speaker: generates the takes; its `speak` serves every panel, so that one thread decodes. value: `stage_value` of a session
    and the key in hand. controls: by the names of ASKED and TUNED. stage: draws the tab; its event `locate` brings a `token`
    for the map. in_hand: the key of the take in hand."""

    speaker: Speaker
    load_judges: Callable[[], Judges]
    value: Callable[..., dict[str, object]]
    origin: Origin
    controls: Mapping[str, Component]
    stage: gr.HTML
    session: gr.State
    in_hand: gr.Radio

    def shown(self, session: Session, hand: str, status: str) -> object:
        """Show what a run has made. `live` goes with every update, as the page may skip all but the last one."""
        return gr.update(value={**self.value(session, hand, status=status), "over": True}, live="")

    def generate(self, *values: object) -> Iterator[Updates]:
        """Generate takes; yields the value of the stage."""
        *asked, hand, session, turn = values
        named = dict(zip((*ASKED, *TUNED), asked, strict=True))
        number, session = turn.begin(session)
        status = ""
        try:
            settings = Settings("pcg", **{name: named.pop(name) for name in TUNED})
            request = Request(**named, settings=settings)
            hand = hand if request.method == ALL else request.method
            seconds = lambda request, *_: gpu_seconds(request.text, len(METHODS) + 1)  # noqa: E731
            with closing(on_gpu(partial(generate, self.speaker), seconds)(request, session)) as steps:
                for step in steps:
                    if turn.number != number:  # A knob has moved on.
                        return
                    status, waiting = step.status, json.dumps({"status": step.status})
                    update = {"live": step.live.to_json(number, status) if step.live else waiting}
                    if step.changed:
                        session = turn.session = step.session
                        update["value"] = self.value(session, hand, status=status)
                    yield {self.stage: gr.update(**update)}
            # Not before: what the page does with new takes would run beside the next method, whose time is measured.
            session = turn.session or session
            turn.end(number)
            yield {self.stage: self.shown(session, hand, status), self.session: session}
        except PCGError as error:
            kept = turn.session if turn.number == number else None
            turn.end(number)
            told = {self.stage: self.shown(kept or session, hand, plain(error))}
            yield told | ({self.session: kept} if kept else {})
            raise page_error(error) from error

    def judge(self, hand: str, session: Session, turn: Turn) -> Iterator[Updates]:
        """Judge the takes on the cards until another run begins, which judges would slow down."""
        number = turn.number
        for shown in session.cards.values():
            if shown.sound and shown.sound not in session.heard and shown.sound.is_file():
                with showing_errors():
                    take = shown.with_sound()
                    words = self.load_judges().transcribe(take.audio, take.sample_rate)
                if turn.number != number:
                    return
                session = session.with_transcript(shown.sound, words)
                yield {self.stage: gr.update(value=self.value(session, hand)), self.session: session}

    def stop(self, hand: str, session: Session, turn: Turn) -> Updates:
        finished = turn.stopped or session
        return {self.stage: self.shown(finished, hand, stopped(turn.stopped)), self.session: finished}

    def study(self, hand: str, session: Session) -> dict[str, object]:
        with showing_errors():
            found = study_of(self.speaker.synthesizer, session, hand)
        return self.value(session, hand, study=found)

    def choose(self, session: Session, event: gr.EventData) -> Updates:
        """Take a card's take in hand."""
        key = event_values(event).get("key")
        if key not in METHODS:
            return {self.in_hand: gr.skip()}
        session = session if session.held is None else replace(session, held=None)
        return {self.in_hand: key, self.session: session, self.stage: self.value(session, key)}

    def use(self, hand: str, session: Session, event: gr.EventData) -> Updates:
        """Bring a take of the history, a preset, a link or a file to the controls."""
        what, voices = event_values(event), self.speaker.synthesizer.voice.references
        brought, note, then = "settings", "", ""
        with showing_errors():
            if "number" in what:
                session, brought = session.holding(what["number"]), "take"
                stored = Stored.of(session.in_hand(hand).take, self.origin)
                hand = stored.settings.method
            else:
                stored = share.brought(what)
                if isinstance(stored, Stored):
                    note, then = share.caveats(stored, self.origin, voices), stored.settings.method
        value = {**self.value(session, hand, note=note), "then": then, "brought": brought}
        moved = {self.controls[name]: value for name, value in share.controls_of(stored, voices).items() if name in MOVED}
        return {self.stage: value, self.session: session, self.in_hand: hand, **moved}

    def check(self, recording: str | None) -> str:
        """Say what is wrong with a recording."""
        with showing_errors():
            note = recording_note(self.speaker.synthesizer, recording)
        return message_html(note) if note else ""


def _wire(page: gr.Blocks, tab: Listen) -> None:
    stage, controls, session, hand, turn = tab.stage, tab.controls, tab.session, tab.in_hand, gr.State(Turn())
    service = tab.speaker.service is not None
    asked = [controls[name] for name in (*ASKED, *TUNED)]

    @with_parameters(*ASKED, *TUNED, "hand", "session", "turn")
    def generate_takes(*values: object) -> Iterator[Updates]:
        yield from tab.generate(*values)

    running = {
        "fn": generate_takes, "inputs": [*asked, hand, session, turn], "outputs": [stage, session],
        "js": WITH_METHOD.replace("METHOD", str(ASKED.index("method"))), "show_progress": "hidden",
        "trigger_mode": "always_last", "concurrency_id": SPEAKING if service else DECODING,
        "concurrency_limit": VISITORS if service else 1,
    }  # fmt: skip
    full = gr.on(
        [controls["run"].click, controls["text"].submit], **running, api_name="generate",
        api_description="Generate takes of the text with a method, beside AR, or with all methods; streams the value of the "
        "stage, whose `state` is JSON: lanes with rounds and figures.",
    )  # fmt: skip
    hidden, work = {"api_visibility": "private"}, []
    for run in (full, stage.again(**running, **hidden)):
        for ended in (run.success, run.failure):  # also of a request that was refused before the handler saw it
            ended(js="() => { document.dispatchEvent(new CustomEvent('run-ended')); }", **hidden)
        # An event of its own, as the next press waits for the end of the last run.
        judged = run.success(
            tab.judge, [hand, session, turn], [stage, session], show_progress="hidden", trigger_mode="multiple",
            concurrency_id="judging", concurrency_limit=VISITORS, **hidden,
        )  # fmt: skip
        work += [run, judged]
    # Through the queue where a state changes: gradio tells the page of that nowhere else.
    queued = {**PRIVATE, "queue": True, "concurrency_limit": None, "trigger_mode": "multiple"}
    # In two steps: what the run sent last may reach the page after the answer to the first.
    halted = controls["stop"].click(lambda turn: turn.stop(), turn, None, cancels=work, **PRIVATE)
    halted.then(tab.stop, [hand, session, turn], [stage, session], **queued)
    stage.halt(lambda turn: turn.halt(), turn, None, **PRIVATE)
    page.load(lambda hand, session: tab.value(session, hand), [hand, session], stage, **PRIVATE)
    stage.choose(tab.choose, session, [hand, session, stage], **queued)
    studying = {"queue": True, "concurrency_id": DECODING, "concurrency_limit": 1, "trigger_mode": "always_last"}
    stage.study(tab.study, [hand, session], stage, **PRIVATE | studying)
    moved = [controls[name] for name in MOVED]
    stage.use(tab.use, [hand, session], [stage, session, hand, *moved], **queued | {"concurrency_limit": 1})  # the last wins
    controls["dice"].click(None, None, controls["seed"], js=ROLL, **PRIVATE)
    controls["recording"].change(tab.check, controls["recording"], controls["note"], **PRIVATE)
