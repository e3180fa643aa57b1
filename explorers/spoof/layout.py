"""The Spoof panel: one text by six sampling schemes, their spoof probabilities, and the beams of the search."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component
from gradio.events import Dependency

from explorers.errors import page_error
from explorers.listen.actions import Keep, new_seed, token_rate
from explorers.shared.blocks import (
    DECODING,
    Form,
    by_name,
    json_drawer,
    knob,
    parameters_of,
    player,
    queued_beside,
    run_and_stop,
    seed_and_dice,
    similarity_choice,
    text_box,
    voice_choice,
    wire_stop,
)
from explorers.shared.readout import TITLES, busy_html, failure_html, message_html
from explorers.shared.spoof_curves import curves_html
from explorers.shared.terms import explained, term_html
from explorers.spoof.actions import (
    NOTE,
    SpoofRequest,
    SpoofStep,
    SpoofTake,
    as_record,
    generate_all,
    remembered,
)
from explorers.spoof.beam_tree import tree_html, way_html
from explorers.spoof.search import Search, create_search, sound_of, wire_search
from explorers.spoof.ways import WAYS
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import PCGError, counted
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak

HEADING = f"""<header class="title"><h2>Spoof<small>which parts do detectors find synthetic?</small></h2>
<p>The five sampling schemes of MSpoofTTS (arXiv 2603.05373), and plain top-p as a control. The curves are the
{term_html("spoof", "spoof probability")} of stretches of 50, 25 or 10 tokens: lower is more like speech. The beams
are chosen by these same detectors, so a lower curve of theirs is no proof of better speech. {NOTE}</p></header>"""
EXAMPLE = "The train to the city leaves at nine in the morning."
TEMPERATURE_INFO = explained("temperature", "The paper uses 1.0.")
SIMILARITY_INFO = "The similarity that theta is a threshold of."
METHOD_INFO = "The paper uses AR. Beams with SD, SSD or PCG are an extension of this program."
READY = "Six takes, one after the other. The two with beams take longer."
STOPPED = "Stopped. Finished takes stay."
DONE = "All six takes are ready."
FIRST, *_, LAST = WAYS
# What the detectors' beams cost in takes, roughly: four plain ones, and twice five and a half.
TAKES = 15


@dataclass(frozen=True)
class View:
    """The places of one way."""

    head: gr.HTML
    sound: gr.Audio
    curves: gr.HTML

    @property
    def all(self) -> list[Component]:
        return [self.head, self.sound, self.curves]


@dataclass(frozen=True)
class SpoofPlaces:
    """Everything on the page that a run updates. said: the takes of a run that is over."""

    record: gr.JSON
    said: gr.State
    views: Mapping[str, View]
    search: Search

    @property
    def outputs(self) -> list[Component]:
        search, spoken = self.search, [place for view in self.views.values() for place in view.all]
        return [self.record, self.said, search.trees, search.way, search.tree, *spoken]


def create_spoof(
    synthesizer: Synthesizer,
    speak: Speak | None = None,
    session: gr.State | None = None,
    keep: Keep | None = None,
    turn: gr.State | None = None,
) -> Mapping[str, Component]:
    """Lay the panel out within the Blocks that is being built; the synthesizer has detectors for its codes. What is returned
    are the controls, by the names of SpoofRequest. speak: as in `generate_all`. session: holds a Session, into whose history
    the takes go, as `keep` writes them into files; turn: holds the Turn of what Listen generates meanwhile."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer)
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            with gr.Column(elem_classes="lab-card"):
                gr.HTML(HEADING, apply_default_css=False)
            keys, views = tuple(WAYS), dict[str, View]()
            for row in zip(keys[::2], keys[1::2], strict=True):
                with gr.Row(equal_height=True, elem_classes="lab-pair"):
                    views |= {key: _view(synthesizer, key) for key in row}
            search = create_search(synthesizer)
            with gr.Column(elem_classes="lab-card"):
                record = json_drawer("spoof-record")
    places = SpoofPlaces(record, gr.State(()), views, search)
    running = _wire(synthesizer, speak, controls, places)
    if session and keep and turn:
        # When it is over, as other takes may have come into the session meanwhile.
        running.success(
            lambda session, said, turn: remembered(session, said, keep, turn), [session, places.said, turn], session,
            concurrency_limit=None, show_progress="hidden", api_visibility="private",
        )  # fmt: skip
    wire_search(synthesizer, search)
    return controls.named


def _controls(synthesizer: Synthesizer) -> Form:
    with gr.Column(elem_classes="lab-form"):
        text, voice = text_box("spoof-", EXAMPLE), voice_choice(synthesizer, "spoof-")
        method = gr.Radio(
            [(TITLES[key][0], key) for key in synthesizer.methods], value="ar", label="Decoding method",
            info=METHOD_INFO, elem_id="spoof-method",
        )  # fmt: skip
        run, stop = run_and_stop("spoof-", "Compare all six")
        status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="spoof-status")
    with gr.Column(elem_classes="lab-form"):
        temperature = knob("temperature", Settings(), "spoof-", TEMPERATURE_INFO)
        seed, dice = seed_and_dice("spoof-")
        with gr.Column(visible=False, elem_classes="lab-form-part") as drafting:
            theta, lookahead, beta = (
                knob(name, Settings(), "spoof-", explained(name)) for name in ("theta", "lookahead", "beta")
            )
            similarity = similarity_choice(synthesizer, "spoof-", info=SIMILARITY_INFO)
    method.input(lambda method: gr.update(visible=method != "ar"), method, drafting, queue=False, api_visibility="private")
    return Form(
        SpoofRequest, [text, voice, method, temperature, seed, theta, similarity, lookahead, beta], run, stop, dice, status
    )


def _view(synthesizer: Synthesizer, key: str) -> View:
    with gr.Column(min_width=300, elem_classes="lab-card", elem_id=f"spoof-{key}"):
        head = gr.HTML(way_html(key), apply_default_css=False)
        sound = player(synthesizer, WAYS[key].name, f"spoof-sound-{key}")
        curves = gr.HTML("", apply_default_css=False, elem_id=f"spoof-curves-{key}")
    return View(head, sound, curves)


Updates = dict[Block, object]


def _handler(
    synthesizer: Synthesizer, speak: Speak | None, controls: Form, places: SpoofPlaces
) -> Callable[..., Iterator[Updates]]:
    """`generate_all` as gradio calls it: one argument for each control, and updates by component."""
    say = on_gpu(partial(generate_all, synthesizer, speak=speak), lambda request: gpu_seconds(request.text, TAKES))
    rate = token_rate(synthesizer)

    @parameters_of(SpoofRequest)
    def compare_ways(*values: object) -> Iterator[Updates]:
        said: list[SpoofTake] = []
        try:
            request = SpoofRequest(**by_name(SpoofRequest, values))
            with closing(say(request)) as steps:
                for step in steps:
                    said += [step.done] if step.done else []
                    yield _updates(request, said, step, places) | {controls.status: _progress_html(step, rate)}
        except PCGError as error:
            yield {controls.status: failure_html(error)}
            raise page_error(error) from error

    return compare_ways


def _updates(request: SpoofRequest, said: list[SpoofTake], step: SpoofStep, places: SpoofPlaces) -> Updates:
    """At the start everything is emptied; later only the places of the way that is done change."""
    begins = step.now == FIRST and not step.tokens and step.done is None and not step.waits
    if step.done is None and not begins:
        return {}
    search, trees = places.search, {each.way: each.tree for each in said if each.tree}
    updates: Updates = {places.record: as_record(request, said), search.trees: trees}
    if step.now in trees:
        updates[search.way] = step.now
    if step.done and step.now == LAST:
        updates[places.said] = tuple(said)
    if begins or step.now in trees:
        updates[search.tree] = tree_html(trees.get(step.now))
    for key in WAYS if begins else (step.now,):
        updates |= _card_updates(key, places.views[key], step.done)
    return updates


def _card_updates(key: str, view: View, said: SpoofTake | None) -> Updates:
    sound = sound_of(said.take.audio, said.take.sample_rate) if said else None
    curves = curves_html(said.curves, said.take.audio_seconds) if said else ""
    return {view.head: way_html(key, said), view.sound: sound, view.curves: curves}


def _progress_html(step: SpoofStep, rate: float) -> str:
    """Where a run stands; not announced aloud before its end, as it changes often."""
    if step.done and step.now == LAST:
        return message_html(DONE)
    if step.waits:
        return message_html(step.waits)
    place = list(WAYS).index(step.now) + 1
    done = f"{counted(step.tokens, 'token')}, {step.tokens / rate:.1f} s"
    words = f"{WAYS[step.now].name}: {done} <span>{place} of {len(WAYS)}</span>"
    return busy_html(words)


def _wire(synthesizer: Synthesizer, speak: Speak | None, controls: Form, places: SpoofPlaces) -> Dependency:
    private = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
    running = controls.run.click(
        _handler(synthesizer, speak, controls, places), controls.inputs, [*places.outputs, controls.status],
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="spoof",
        api_description="Takes of a text by Original, top-p, RAS, EAS, HierRAS and HierEAS at one seed; streams a record first "
        "(cost, spoof probabilities and curves, the beams of the searched ways), then the same as HTML and sounds.",
    )  # fmt: skip
    wire_stop(controls.stop, running, controls.status, STOPPED)
    controls.dice.click(new_seed, None, controls.named["seed"], **private)
    return running
