"""The Listening test panel: a blind comparison of takes by preference, discrimination or rating, and its result."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
import numpy as np
from gradio.blocks import Block
from gradio.components import Component

from explorers.errors import page_error, showing_errors
from explorers.listening.actions import (
    BlindTest,
    Judges,
    ListeningRequest,
    Preparing,
    end,
    export,
    judge,
    prepare,
    question,
    vote,
    write_sounds,
)
from explorers.listening.form import ListeningControls, create_controls, offer_presets, wire_choices
from explorers.listening.player import VOTE, create_player, trial_value
from explorers.listening.reveal import reveal_html
from explorers.listening.sharing import MOVED, create_link
from explorers.shared.blocks import DECODING, by_name, json_drawer, parameters_of, queued_beside, wire_stop
from explorers.shared.readout import failure_html, message_html
from explorers.zero_gpu import LONGEST_SECONDS, STARTING_SECONDS, on_gpu
from pcg.errors import PCGError
from pcg.metrics.intelligibility import Judge
from pcg.saved_take import Origin
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak

HEADING = """<header class="title"><h2>Listening test<small>blind, equally loud, in an order drawn from the seed</small></h2>
<p>The system behind each letter stays secret until the last vote. Use headphones, and set a comfortable level first.</p>
</header>"""
WAITING = "The test is ready for your votes."
OVER = "The test is over. Results below."
STOPPED = "Stopped. An earlier test stays."


@dataclass(frozen=True)
class ListeningPlaces:
    """The right-hand side. ballot, cast, judge: how a program votes, and asks for figures. blind_test: a BlindTest or None;
    judging: the one to judge next, or None."""

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
    blind_test: gr.State
    judging: gr.State

    @property
    def shown(self) -> list[Component | gr.Column]:
        """What a step of the test changes; the record comes first, for programs."""
        return [self.record, self.player, self.end, self.revealed, self.reveal, self.files, self.blind_test, self.judging]


@dataclass(frozen=True)
class ListeningView:
    """controls: voice and knobs, by the names of Settings. offer_presets: lets a test compare presets; it takes what holds a
    visitor's own."""

    controls: Mapping[str, Component]
    offer_presets: Callable[[gr.BrowserState], None]


def create_listening_test(
    page: gr.Blocks,
    synthesizer: Synthesizer,
    origin: Origin,
    load: Callable[[], Judge],
    session: gr.State,
    shared: Mapping[str, Component],
    speak: Speak | None = None,
) -> ListeningView:
    """Lay the panel out within `page`, which is being built. `load` is called when words are to be judged first; `session`
    holds a Session, whose takes' settings may be compared; the controls `shared` of other tabs are moved by the link of a test.
    speak: as in `prepare`."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = create_controls(synthesizer)
            opened = create_link(page, synthesizer, origin.digest, controls, shared)
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            places = _places()
    _wire(synthesizer, speak, controls, places)
    wire_choices(controls, session)
    _wire_reveal(synthesizer, lru_cache(maxsize=1)(lambda: Judges(load())), places)
    return ListeningView({name: controls.named[name] for name in MOVED}, partial(offer_presets, opened, controls=controls))


def _places() -> ListeningPlaces:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        player = create_player()
        finish = gr.Button("End the test and show the result", size="md", visible=False, elem_id="listening-end")
        ballot, cast, judge_now = gr.JSON(visible=False, label="Vote"), gr.Button(visible=False), gr.Button(visible=False)
    with gr.Column(elem_classes="lab-card", visible=False, elem_id="listening-revealed") as revealed:
        reveal = gr.HTML("", apply_default_css=False, elem_id="listening-reveal")
        with gr.Row():
            save = gr.Button("Save as CSV and JSON", size="md", scale=0, min_width=200, elem_id="listening-export")
        files = gr.Files(label="Files", visible=False, interactive=False, elem_id="listening-files")
        record = json_drawer("listening-record")
    return ListeningPlaces(
        record, player, finish, revealed, reveal, save, files, ballot, cast, judge_now, gr.State(), gr.State()
    )


Updates = dict[Block, object]


def _preparer(
    synthesizer: Synthesizer, speak: Speak | None, places: ListeningPlaces, status: gr.HTML
) -> Callable[..., Iterator[Updates]]:
    """`prepare` as gradio calls it: one argument for each control, and updates by component."""
    decode, show = on_gpu(partial(prepare, synthesizer, speak=speak), lambda *_: LONGEST_SECONDS), _shower(synthesizer, places)

    @parameters_of(ListeningRequest, "kept")
    def handle(*values: object) -> Iterator[Updates]:
        *inputs, kept = values
        try:
            with closing(decode(ListeningRequest(**by_name(ListeningRequest, inputs)), kept)) as steps:
                for step in steps:
                    if isinstance(step, Preparing):
                        yield {status: message_html(step.waits or f"Decoding take {step.done + 1} of {step.count}.")}
                    else:
                        for updates in show(step):
                            yield updates | {status: message_html(WAITING)}
        except PCGError as error:
            yield {status: failure_html(error)}
            raise page_error(error) from error

    return handle


def _voter(
    synthesizer: Synthesizer, places: ListeningPlaces, status: gr.HTML, from_player: bool
) -> Callable[..., Iterator[Updates]]:
    """The next trial, or the result, after a vote of the player or of a program."""
    show = _shower(synthesizer, places)

    def cast(ballot: object, blind_test: BlindTest | None) -> Iterator[Updates]:
        given = ballot if isinstance(ballot, Mapping) else {}
        with showing_errors():
            after = vote(blind_test, given.get("trial"), given.get("answer"), given.get("plays"))
            for updates in show(after):
                yield updates | {status: message_html(OVER if after.over else WAITING)}

    def cast_by_player(blind_test: BlindTest | None, event: gr.EventData) -> Iterator[Updates]:
        yield from cast(event._data, blind_test)

    return cast_by_player if from_player else cast


def _ender(
    synthesizer: Synthesizer, places: ListeningPlaces, status: gr.HTML
) -> Callable[[BlindTest | None], Iterator[Updates]]:
    show = _shower(synthesizer, places)

    def finish(blind_test: BlindTest | None) -> Iterator[Updates]:
        with showing_errors():
            for updates in show(end(blind_test)):
                yield updates | {status: message_html(OVER)}

    return finish


def _shower(synthesizer: Synthesizer, places: ListeningPlaces) -> Callable[[BlindTest], Iterator[Updates]]:
    """The updates of `ListeningPlaces.shown`: the next trial, or the result."""
    write = on_gpu(partial(write_sounds, synthesizer), lambda *_: STARTING_SECONDS)

    def show(blind_test: BlindTest) -> Iterator[Updates]:
        asked, over = question(blind_test), blind_test.over
        updates: Updates = {
            places.end: gr.update(visible=not over),
            places.revealed: gr.update(visible=over),
            places.files: gr.update(value=None, visible=False),
            places.blind_test: blind_test,
            places.judging: blind_test if over else None,
        }
        if over:
            result = {places.record: blind_test.record(), places.reveal: reveal_html(blind_test)}
            yield updates | result | {places.player: gr.update(value=asked)}
            return
        # Fresh noise, so that the bytes cannot be predicted from the seed.
        noise = np.random.default_rng()
        with TemporaryDirectory() as folder:
            value = trial_value(asked, write(Path(folder), blind_test, noise))
            # When it is asked for the next step, gradio has copied the sounds to its cache, which it clears by itself.
            yield updates | {places.record: asked, places.reveal: "", places.player: gr.update(value=value)}

    return show


def _judger(
    synthesizer: Synthesizer, load_judges: Callable[[], Judges]
) -> Callable[[BlindTest | None], Iterator[list[object]]]:
    hear = on_gpu(partial(judge, synthesizer, load_judges), lambda *_: LONGEST_SECONDS)

    def listen(blind_test: BlindTest | None) -> Iterator[list[object]]:
        with showing_errors(), closing(hear(blind_test)) as steps:
            for judged in steps:
                yield [judged.record(), reveal_html(judged), judged]

    return listen


def _exporter(blind_test: BlindTest | None) -> Iterator[object]:
    with showing_errors(), TemporaryDirectory() as folder:
        # Gradio copies them before it asks for more, as above.
        yield gr.update(value=[str(path) for path in export(Path(folder), blind_test)], visible=True)


def _wire(synthesizer: Synthesizer, speak: Speak | None, controls: ListeningControls, places: ListeningPlaces) -> None:
    outputs = [*places.shown, controls.status]
    run = controls.run.click(
        _preparer(synthesizer, speak, places, controls.status), [*controls.inputs, controls.kept], outputs,
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="listening_prepare",
        api_description="Prepare a blind listening test and decode its takes; streams its progress, then the first trial: a "
        "record with number, count, kind, letters and text first, then the trial with its sounds.",
    )  # fmt: skip
    wire_stop(controls.stop, run, controls.status, STOPPED)
    # A vote must not wait for a take that is being generated.
    quick = {"concurrency_limit": None, "show_progress": "hidden"}
    getattr(places.player, VOTE)(
        _voter(synthesizer, places, controls.status, from_player=True),
        places.blind_test,
        outputs,
        api_visibility="private",
        **quick,
    )
    places.cast.click(
        _voter(synthesizer, places, controls.status, from_player=False), [places.ballot, places.blind_test], outputs,
        api_name="listening_vote",
        api_description='Vote on the current trial: {"trial": its number, "answer": "A", "B" or "tie", or scores of A, B, '
        '…, "plays": how often each letter was played}. Answers with the next trial, or with everything after the last one.',
        **quick,
    )  # fmt: skip
    places.end.click(
        _ender(synthesizer, places, controls.status), places.blind_test, outputs, api_name="listening_end",
        api_description="End the test before its last vote: the systems and the result of the votes so far.", **quick,
    )  # fmt: skip


def _wire_reveal(synthesizer: Synthesizer, load_judges: Callable[[], Judges], places: ListeningPlaces) -> None:
    listen, outputs = _judger(synthesizer, load_judges), [places.record, places.reveal, places.blind_test]

    def listen_to_new(blind_test: BlindTest | None) -> Iterator[list[object]]:
        if blind_test is not None:
            yield from listen(blind_test)

    # Next to a take that is being generated, its times would be wrong.
    alone = {"show_progress": "hidden", "concurrency_id": DECODING, "concurrency_limit": 1}
    places.judging.change(listen_to_new, places.judging, outputs, api_visibility="private", **alone)
    places.judge.click(
        listen, places.blind_test, outputs, api_name="listening_judge",
        api_description="WER, CER, speaker similarity and DNSMOS of all takes of a finished listening test, by name of judge.",
        **alone,
    )  # fmt: skip
    places.export.click(
        _exporter, places.blind_test, places.files, show_progress="minimal", api_name="listening_export",
        api_description="A finished listening test as JSON, with seed, order, votes and outcome, and as CSV, a line a sound.",
    )  # fmt: skip
