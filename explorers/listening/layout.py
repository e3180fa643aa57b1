"""Listening test: which take is better, or can be told apart, when nobody knows who is who; then the reveal."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.compare.actions import new_seed
from explorers.compare.layout import DECODING
from explorers.errors import telling, told
from explorers.listening.actions import (
    MOST_ASKED,
    MOST_LINES,
    Ears,
    Preparing,
    Request,
    Sitting,
    end,
    export,
    judge,
    keep,
    last_settings,
    prepare,
    question,
    vote,
    write_sounds,
)
from explorers.listening.player import VOTE, create_player, trial_value
from explorers.listening.reveal import reveal_html
from explorers.session import Session
from explorers.shared.controls import knob, run_and_stop, seed_and_dice, voice_choice
from explorers.shared.readout import message_html
from explorers.shared.terms import term_info
from explorers.zero_gpu import LONGEST_SECONDS, STARTING_SECONDS, on_gpu
from pcg.errors import PCGError
from pcg.metrics.intelligibility import Judge
from pcg.prompts.text import MAX_CHARACTERS
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer

HEADING = """<header class="title"><h2>Listening test<small>blind, equally loud, in an order drawn from the seed</small></h2>
<p>Who is behind a letter stays on the server until the last vote. Put on headphones, and set a comfortable level first.</p>
</header>"""
DESIGN_NAMES = {"ab": "A/B: which is better", "abx": "ABX: which of them is X", "rating": "Rating, 0 to 100"}
SOURCE_NAMES = {"evaluation": "evaluation sentences", "own": "own lines"}
TRIALS = 6
# Places that a step of the test changes.
SHOWN = 8
READY = "Choose what to compare, and prepare the test."
WAITING = "The test waits for your votes."
OVER = "The test is over."
STOPPED = "Stopped. A test that was ready before stays."
FAILED = "That did not work. Everything on the page is as it was."


@dataclass(frozen=True)
class Controls:
    """The left-hand side. `inputs` stand in the order of Request; `kept` holds settings by name."""

    inputs: list[Component]
    rating: gr.Column
    own: gr.Column
    run: gr.Button
    stop: gr.Button
    dice: gr.Button
    status: gr.HTML
    keep: gr.Button
    keep_last: gr.Button
    kept: gr.State

    @property
    def named(self) -> dict[str, Component]:
        return dict(zip((f.name for f in fields(Request)), self.inputs, strict=True))


@dataclass(frozen=True)
class Places:
    """The right-hand side. ballot, cast, judge: how a program votes, and asks for figures. sitting: a Sitting or None; judging:
    the one whose judges are to listen next, or None."""

    record: gr.JSON
    player: gr.HTML
    end: gr.Button
    revealed: gr.Column
    reveal: gr.HTML
    export: gr.Button
    files: gr.Files
    ballot: gr.JSON
    cast: gr.Button
    judge: gr.Button
    sitting: gr.State
    judging: gr.State

    @property
    def shown(self) -> list[Component | gr.Column]:
        """What a step of the test changes; the record comes first, for programs."""
        return [self.record, self.player, self.end, self.revealed, self.reveal, self.files, self.sitting, self.judging]


def create_listening_test(synthesizer: Synthesizer, load: Callable[[], Judge], session: gr.State) -> None:
    """Lay the panel out within the Blocks that is being built. `load` is called when words are to be judged first; `session`
    holds a Session, whose takes' settings may be compared."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer)
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            places = _places()
    _wire(synthesizer, controls, places)
    _wire_choices(controls, session)
    _wire_reveal(synthesizer, lru_cache(maxsize=1)(lambda: Ears(load())), places)


def _controls(synthesizer: Synthesizer) -> Controls:
    with gr.Column(elem_classes="lab-desk"):
        design = gr.Radio([(n, k) for k, n in DESIGN_NAMES.items()], value="ab", label="Question", elem_id="listening-design")
        compared = gr.Dropdown(
            [method.upper() for method in METHODS], value=["AR", "PCG"], multiselect=True, label="Compare",
            info="Methods at the settings below, and what you kept.", elem_id="listening-compared",
        )  # fmt: skip
        with gr.Column(visible=False, elem_classes="lab-desk-part") as rating:
            reference = gr.Dropdown(
                [method.upper() for method in METHODS], value="AR", label="Reference", elem_id="listening-reference",
                info="Heard openly, and hidden among the others.",
            )  # fmt: skip
            anchor = gr.Checkbox(label="Anchor: the reference without what lies above 3.5 kHz", elem_id="listening-anchor")
        source = gr.Radio(
            [(n, k) for k, n in SOURCE_NAMES.items()], value="evaluation", label="Texts", elem_id="listening-source"
        )
        with gr.Column(visible=False, elem_classes="lab-desk-part") as own:
            lines = gr.Textbox(
                label="Own lines", lines=4, max_lines=10, max_length=10 * MAX_CHARACTERS, elem_id="listening-lines",
                info=f"One text a line, up to {MOST_LINES}, each at most about ten seconds of speech.",
            )  # fmt: skip
        trials = gr.Slider(1, MOST_ASKED, TRIALS, step=1, label="Trials", buttons=[], elem_id="listening-trials")
        run, stop = run_and_stop("listening-", "Prepare the test")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="listening-status")
    voice, knobs, seed, dice, keep_these, keep_last = _settings(synthesizer)
    inputs = [design, compared, reference, anchor, source, lines, trials, voice, *knobs, seed]
    return Controls(inputs, rating, own, run, stop, dice, status, keep_these, keep_last, gr.State({}))


def _settings(synthesizer: Synthesizer) -> tuple[gr.Dropdown, list[gr.Slider], gr.Number, gr.Button, gr.Button, gr.Button]:
    usual = Settings()
    with gr.Column(elem_classes="lab-desk"):
        voice = voice_choice(synthesizer, "listening-")
        seed, dice = seed_and_dice("listening-", usual.seed, "Seed of the test")
        with gr.Accordion("Settings of the methods", open=False):
            names = {"theta": "Theta", "lookahead": "Lookahead, tokens", "beta": "Beta", "temperature": "Temperature"}
            knobs = [
                knob(name, usual, "listening-", f"What is {term_info(name)}?", label=label) for name, label in names.items()
            ]
            with gr.Row():
                keep_these = gr.Button("Keep PCG at these", size="md", elem_id="listening-keep", min_width=120)
                keep_last = gr.Button("Keep the last takes' settings", size="md", elem_id="listening-keep-last", min_width=120)
    return voice, knobs, seed, dice, keep_these, keep_last


def _places() -> Places:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        player = create_player()
        finish = gr.Button("End the test here, and reveal", size="md", visible=False, elem_id="listening-end")
        ballot, cast, judge_now = gr.JSON(visible=False, label="Vote"), gr.Button(visible=False), gr.Button(visible=False)
    with gr.Column(elem_classes="lab-card", visible=False, elem_id="listening-revealed") as revealed:
        reveal = gr.HTML("", apply_default_css=False, elem_id="listening-reveal")
        with gr.Row():
            save = gr.Button("Save as CSV and JSON", size="md", scale=0, min_width=200, elem_id="listening-export")
        files = gr.Files(label="Files", visible=False, interactive=False, elem_id="listening-files")
        with gr.Accordion("As JSON", open=False):
            record = gr.JSON(show_label=False, elem_id="listening-record", max_height=320)
    return Places(record, player, finish, revealed, reveal, save, files, ballot, cast, judge_now, gr.State(), gr.State())


def _preparer(synthesizer: Synthesizer) -> Callable[..., Iterator[list[object]]]:
    """`prepare` as gradio calls it: one argument a control, one update a place on the page."""
    decode, show = on_gpu(partial(prepare, synthesizer), lambda *_: LONGEST_SECONDS), _shower(synthesizer)

    def handle(
        design: str,
        compared: list[str],
        reference: str,
        anchor: bool,
        source: str,
        lines: str,
        trials: int,
        voice: str,
        theta: float,
        lookahead: int,
        beta: float,
        temperature: float,
        seed: int,
        kept: Mapping[str, Settings],
    ) -> Iterator[list[object]]:
        knobs = (theta, lookahead, beta, temperature, seed)
        request = Request(design, compared, reference, anchor, source, lines, trials, voice, *knobs)
        try:
            with closing(decode(request, kept)) as steps:
                for step in steps:
                    if isinstance(step, Preparing):
                        yield [*_nothing(), message_html(f"Take {step.done + 1} of {step.count} is being decoded.")]
                    else:
                        for updates in show(step):
                            yield [*updates, message_html(WAITING)]
        except PCGError as error:
            yield [*_nothing(), message_html(FAILED)]
            raise told(error) from error

    return handle


def _voter(synthesizer: Synthesizer, from_player: bool) -> Callable[..., Iterator[list[object]]]:
    """The next trial, or the reveal, after a vote of the player or of a program."""
    show = _shower(synthesizer)

    def cast(ballot: object, sitting: Sitting | None) -> Iterator[list[object]]:
        given = ballot if isinstance(ballot, Mapping) else {}
        with telling():
            after = vote(sitting, given.get("trial"), given.get("answer"), given.get("plays"))
            for updates in show(after):
                yield [*updates, message_html(OVER if after.over else WAITING)]

    def cast_by_player(sitting: Sitting | None, event: gr.EventData) -> Iterator[list[object]]:
        yield from cast(event._data, sitting)

    return cast_by_player if from_player else cast


def _ender(synthesizer: Synthesizer) -> Callable[[Sitting | None], Iterator[list[object]]]:
    show = _shower(synthesizer)

    def finish(sitting: Sitting | None) -> Iterator[list[object]]:
        with telling():
            for updates in show(end(sitting)):
                yield [*updates, message_html(OVER)]

    return finish


def _nothing() -> list[object]:
    return [gr.skip()] * SHOWN


def _shower(synthesizer: Synthesizer) -> Callable[[Sitting], Iterator[list[object]]]:
    """What makes the updates of `Places.shown`: the trial that waits, or the reveal."""
    write = on_gpu(partial(write_sounds, synthesizer), lambda *_: STARTING_SECONDS)

    def show(sitting: Sitting) -> Iterator[list[object]]:
        asked, over = question(sitting), sitting.over
        states = [gr.update(value=None, visible=False), sitting, sitting if over else None]
        if over:
            page = [gr.update(visible=False), gr.update(visible=True), reveal_html(sitting)]
            yield [sitting.record(), gr.update(value=asked), *page, *states]
            return
        # Fresh noise, so that the bytes cannot be foretold from the seed.
        noise = np.random.default_rng()
        with TemporaryDirectory() as folder:
            value = trial_value(asked, write(Path(folder), sitting, noise))
            page = [gr.update(visible=True), gr.update(visible=False), ""]
            # When it is asked for the next step, gradio has copied the sounds to its cache, which it clears by itself.
            yield [asked, gr.update(value=value), *page, *states]

    return show


def _judger(synthesizer: Synthesizer, ears: Callable[[], Ears]) -> Callable[[Sitting | None], Iterator[list[object]]]:
    hear = on_gpu(partial(judge, synthesizer, ears), lambda *_: LONGEST_SECONDS)

    def listen(sitting: Sitting | None) -> Iterator[list[object]]:
        with telling(), closing(hear(sitting)) as steps:
            for judged in steps:
                yield [judged.record(), reveal_html(judged), judged]

    return listen


def _exporter(sitting: Sitting | None) -> Iterator[object]:
    with telling(), TemporaryDirectory() as folder:
        # Gradio copies them before it asks for more, as above.
        yield gr.update(value=[str(path) for path in export(Path(folder), sitting)], visible=True)


def _wire(synthesizer: Synthesizer, controls: Controls, places: Places) -> None:
    outputs = [*places.shown, controls.status]
    run = controls.run.click(
        _preparer(synthesizer), [*controls.inputs, controls.kept], outputs,
        show_progress="hidden", concurrency_id=DECODING, concurrency_limit=1,
        api_name="listening_prepare",
        api_description="Draw a blind listening test and decode its takes; streams its progress, then the first trial: a "
        "record with number, count, kind, letters and text first, then the trial with its sounds.",
    )  # fmt: skip
    controls.stop.click(
        lambda: message_html(STOPPED), None, controls.status, cancels=run, queue=False, api_visibility="private"
    )
    # A vote must not wait for a take that is being spoken.
    quick = {"concurrency_limit": None, "show_progress": "hidden"}
    getattr(places.player, VOTE)(
        _voter(synthesizer, from_player=True), places.sitting, outputs, api_visibility="private", **quick
    )
    places.cast.click(
        _voter(synthesizer, from_player=False), [places.ballot, places.sitting], outputs, api_name="listening_vote",
        api_description='Vote on the trial that waits: {"trial": its number, "answer": "A", "B" or "tie", or scores of A, B, '
        '…, "plays": how often each letter was played}. Answers with the next trial, or with everything after the last one.',
        **quick,
    )  # fmt: skip
    places.end.click(
        _ender(synthesizer), places.sitting, outputs, api_name="listening_end",
        api_description="End the test before its last vote: who was who, and what the votes so far show.", **quick,
    )  # fmt: skip


def _wire_choices(controls: Controls, session: gr.State) -> None:
    named, quiet = controls.named, {"show_progress": "hidden", "api_visibility": "private", "queue": False}
    named["design"].input(lambda design: gr.update(visible=design == "rating"), named["design"], controls.rating, **quiet)
    named["source"].input(lambda source: gr.update(visible=source == "own"), named["source"], controls.own, **quiet)
    controls.dice.click(new_seed, None, named["seed"], **quiet)
    knobs = [named[knob] for knob in ("theta", "lookahead", "beta", "temperature")]
    choosing = [controls.kept, named["compared"], named["reference"]]

    def kept_with(kept: Mapping[str, Settings], settings: list[Settings]) -> list[object]:
        together = keep(kept, settings)
        names = [*(method.upper() for method in METHODS), *together]
        return [together, gr.update(choices=names), gr.update(choices=names)]

    def keep_these(theta: float, lookahead: int, beta: float, temperature: float, kept: Mapping[str, Settings]) -> list[object]:
        with telling():
            return kept_with(kept, [Settings("pcg", theta, lookahead, beta, temperature)])

    def keep_last(session: Session, kept: Mapping[str, Settings]) -> list[object]:
        with telling():
            return kept_with(kept, last_settings(session))

    controls.keep.click(
        keep_these, [*knobs, controls.kept], choosing, show_progress="hidden", api_name="listening_keep",
        api_description="Keep PCG's settings at these knobs under a name, by which a listening test may compare them.",
    )  # fmt: skip
    controls.keep_last.click(
        keep_last, [session, controls.kept], choosing, show_progress="hidden", api_name="listening_keep_last",
        api_description="Keep the settings of this session's takes under names, by which a listening test may compare them.",
    )  # fmt: skip


def _wire_reveal(synthesizer: Synthesizer, ears: Callable[[], Ears], places: Places) -> None:
    listen, outputs = _judger(synthesizer, ears), [places.record, places.reveal, places.sitting]

    def listen_to_new(sitting: Sitting | None) -> Iterator[list[object]]:
        if sitting is not None:
            yield from listen(sitting)

    # Beside a take that is being spoken, its times would be wrong.
    alone = {"show_progress": "hidden", "concurrency_id": DECODING, "concurrency_limit": 1}
    places.judging.change(listen_to_new, places.judging, outputs, api_visibility="private", **alone)
    places.judge.click(
        listen, places.sitting, outputs, api_name="listening_judge",
        api_description="WER, CER, speaker similarity and DNSMOS of all takes of a finished listening test, by name of judge.",
        **alone,
    )  # fmt: skip
    places.export.click(
        _exporter, places.sitting, places.files, show_progress="minimal", api_name="listening_export",
        api_description="A finished listening test as JSON, with seed, order, votes and outcome, and as CSV, a line a sound.",
    )  # fmt: skip
