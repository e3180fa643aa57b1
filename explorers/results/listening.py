"""The listening test: a blind comparison by preference (AB), discrimination (ABX) or scores, its result, and a link to it.

A `BlindTest` stays on the server: before the last vote a listener gets its `question` and the sounds alone.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import parse_qs, urlencode

import gradio as gr
import numpy as np
from gradio.blocks import Block
from gradio.components import Component
from pydantic import ConfigDict, Field

from explorers.errors import plain, showing_errors
from explorers.listen.actions import while_waiting
from explorers.shared import controls
from explorers.shared.readout import message_html, percent, table_html
from explorers.zero_gpu import LONGEST_SECONDS, STARTING_SECONDS, on_gpu
from pcg.audio import write_wav
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests import (
    ANCHOR,
    OPEN,
    RATED,
    SCALES,
    TIE,
    Design,
    Plan,
    Vote,
    as_dict,
    check_vote,
    dithered,
    draw_plan,
    low_anchor,
    matched,
    outcome,
)
from pcg.files import write_json
from pcg.metrics.intelligibility import read_sentences
from pcg.settings import METHODS, PAPERS, Checked, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak, last_take

SCRIPT, MARK = Path(__file__).with_name("results.js"), "#test?"
DESIGNS = {
    "ab": "A/B: which is better", "abx": "ABX: which one is X", "cmos": "CMOS: by how much, -3 to 3",
    "nmos": "NMOS: how natural, 1 to 5", "rating": "Rating, 0 to 100",
}  # fmt: skip
KNOBS = ("theta", "lookahead", "beta", "temperature", "similarity")
MOST_ASKED, TRIALS = 30, 6
READY = "Choose what to compare, then prepare the test."
WAITING, OVER = "The test is ready for your votes.", "The test is over. Results below."
SENT = "This test came by a link: texts, systems, seed and order are set. Press Prepare the test."
NO_TEST = "There is no test: prepare one first."
# A bootstrap of a few numbers is overconfident; Wilson's interval is not.
TOO_SMALL = "n too small"
HEADING = """<header class="title"><h2>Listening test<small>blind, equally loud, in an order drawn from the seed</small></h2>
<p>The system behind each letter stays secret until the last vote. Use headphones, and set a comfortable level first.</p>
</header>"""
OPENED = f"""() => {{
  const press = (id) => setTimeout(() => document.querySelector(id)?.click(), 0);
  addEventListener("hashchange", () => location.hash.startsWith("{MARK}") && location.reload());
  if (location.hash.startsWith("{MARK}")) ["#results-tab-button", "#listening-button"].forEach(press);
  return [location.hash];
}}"""
WITH_ADDRESS = "(...values) => [...values.slice(0, -1), location.origin + location.pathname.replace(/\\/$/, '')]"

Updates = dict[Block, object]


class ListeningRequest(Checked):
    """A request for a listening test, in the order of the controls. compared: methods and presets of the papers, by name."""

    model_config = ConfigDict(strict=False)  # a link holds words alone

    design: Literal["ab", "abx", "cmos", "nmos", "rating"]
    compared: list[str]
    trials: int = Field(ge=1, le=MOST_ASKED, json_schema_extra={"step": 1})
    seed: int
    voice: str
    theta: float
    lookahead: int
    beta: float
    temperature: float
    similarity: str = Settings().similarity

    def systems(self) -> dict[str, Settings]:
        """Return the settings of everything that is compared, by name, in a fixed order."""
        own = {name: getattr(self, name) for name in (*KNOBS, "seed")}
        known = {method.upper(): Settings(method, **own) for method in METHODS} | {p.name: p.settings for p in PAPERS}
        for name in self.compared:
            if name not in known:
                raise InputError("what is compared", name[:40], "one of " + ", ".join(known))
        return {name: settings for name, settings in known.items() if name in self.compared}

    def plan(self, texts: int) -> Plan:
        """Draw the test over so many texts, or raise InputError. The first system, or AR, is the reference of scores."""
        systems = tuple(self.systems())
        design = Design(self.design, systems, systems[0] if systems and self.design in RATED else None)
        return draw_plan(design, texts, self.trials, self.seed)


NAMES = tuple(ListeningRequest.model_fields)


@dataclass(frozen=True, eq=False)
class BlindTest:
    """A test and how far it has come. systems: by name; tokens: of each system's take, for each trial."""

    plan: Plan
    texts: tuple[str, ...]
    voice: str
    systems: Mapping[str, Settings]
    tokens: tuple[Mapping[str, tuple[int, ...]], ...]
    votes: tuple[Vote, ...] = ()

    @property
    def over(self) -> bool:
        return len(self.votes) == len(self.plan.trials)


def prepare(synthesizer: Synthesizer, request: ListeningRequest, speak: Speak | None = None) -> Iterator[str | BlindTest]:
    """Draw the test and decode its takes; yield progress as sentences that name no system, and the BlindTest last.

    Closing the generator stops it. speak: that of the synthesizer, or of a service that serves several visitors."""
    texts, systems = read_sentences(), request.systems()
    plan = request.plan(len(texts))
    synthesizer.voice.reference(request.voice)
    tokens: list[dict[str, tuple[int, ...]]] = [{} for _ in plan.trials]
    for at, trial in enumerate(plan.trials):
        for name, settings in systems.items():
            yield f"Decoding take {at * len(systems) + len(tokens[at]) + 1} of {len(plan.trials) * len(systems)}."
            own = settings.with_(seed=trial.seed)
            with closing((speak or synthesizer.speak)(texts[trial.item], own, request.voice)) as events:
                yield from while_waiting(events, synthesizer)
                tokens[at][name] = last_take(events).tokens
    yield BlindTest(plan, tuple(texts), request.voice, systems, tuple(tokens))


def question(test: BlindTest) -> dict[str, object]:
    """Return what the listener may know of the current trial, ready for JSON."""
    plan, number = test.plan, len(test.votes)
    if test.over:
        return {"number": None, "count": len(plan.trials), "told": OVER}
    asked = {"number": number + 1, "count": len(plan.trials), "kind": plan.design.kind, "letters": list(plan.design.letters)}
    return asked | {"text": test.texts[plan.trials[number].item], "scale": SCALES.get(plan.design.kind)}


def sounds(synthesizer: Synthesizer, test: BlindTest, noise: np.random.Generator) -> list[np.ndarray]:
    """Return the sound behind each letter, int16 `[N]`: equally loud, equally long, and no two copies the same bytes."""
    at, rate = len(test.votes), synthesizer.voice.codec.sample_rate
    speaker = synthesizer.voice.reference(test.voice)
    decoded = {name: synthesizer.decode(list(test.tokens[at][name]), speaker) for name in test.systems}
    if reference := test.plan.design.reference:
        decoded[ANCHOR] = low_anchor(decoded[reference], rate)
    level = dict(zip(decoded, matched(list(decoded.values()), rate), strict=True))
    return [dithered(level[name], noise) for name in test.plan.trials[at].systems]


def vote(test: BlindTest | None, number: object, answer: object, plays: object) -> BlindTest:
    """Return the test with one vote more. number: of the trial, from 1, so that none is counted twice."""
    if test is None:
        raise PCGError(NO_TEST)
    if test.over:
        raise PCGError("The test is over and accepts no more votes.")
    if number != len(test.votes) + 1:
        raise InputError("trial", number, f"{len(test.votes) + 1}, the current trial")
    return replace(test, votes=(*test.votes, check_vote(test.plan.design, answer, plays)))


def export(folder: Path, test: BlindTest) -> str:
    """Write a test that is over as JSON into `folder`."""
    systems = {}
    for name, settings in test.systems.items():  # the seed is that of each trial
        systems[name] = {"settings": {knob: value for knob, value in settings.as_dict().items() if knob != "seed"}}
    write_json(folder / "listening-test.json", as_dict(test.plan, test.texts, test.votes, systems) | {"voice": test.voice})
    return str(folder / "listening-test.json")


def write_test(request: ListeningRequest, address: str) -> str:
    """Return a link to this page at `address` that fixes the test."""
    request.plan(1)
    given = {name: value for name, value in request if value not in (None, "")}
    return f"{address}/{MARK}{urlencode(given, doseq=True)}"


def read_test(opened: str, synthesizer: Synthesizer) -> ListeningRequest | None:
    """Return what `write_test` wrote; None for an address without a test. Raises InputError for a bad link, and for what this
    voice cannot do."""
    _, mark, query = opened.partition(MARK)
    if not mark:
        return None
    values = parse_qs(query, keep_blank_values=True)
    request = ListeningRequest(**{name: found if name == "compared" else found[0] for name, found in values.items()})
    synthesizer.voice.reference(request.voice)
    request.plan(1)
    return request


def result_html(test: BlindTest) -> str:
    """Return the result of a test that is over, words escaped: votes with intervals, and the systems behind the letters."""
    result, design = outcome(test.plan, test.votes), test.plan.design
    verdict, *notes = map(escape, result.sentences)
    rated = result.kind in SCALES
    rows, trials = [], []
    for figure in result.figures if result.n else ():
        ends = (figure.estimate.value, figure.estimate.low, figure.estimate.high)
        value, low, high = map("{:.1f}".format if rated else percent, ends)
        interval = TOO_SMALL if rated and result.too_small else f"{low} to {high}"
        votes = f"n = {figure.n}" if rated else f"{figure.count} of {figure.n}"
        rows.append((figure.name, f"{value} ({interval})", votes))
    for number, (trial, given) in enumerate(zip(test.plan.trials, test.votes, strict=True), start=1):
        pairs = zip(design.letters, trial.systems, strict=True)
        behind = " | ".join(f"{letter}: {system}" for letter, system in pairs if letter != OPEN)
        scores = " · ".join(f"{score:g}" for score in given.answer) if rated else given.answer
        trials.append((str(number), behind, "no difference" if scores == TIE else scores, test.texts[trial.item]))
    what = "mean" if rated else "share"
    result_table = table_html("Result", ("", f"{what}, 95 % interval", "votes"), rows)
    trial_table = table_html("Systems behind the letters", ("trial", "systems", "your vote", "text"), trials)
    return (
        f'<div class="reveal"><p class="results-caption" role="status"><strong>{verdict}</strong></p>'
        f'<p class="results-note">{" ".join(notes)}</p>{result_table}<h3>Systems behind the letters</h3>{trial_table}</div>'
    )


def create_listening_test(
    page: gr.Blocks, synthesizer: Synthesizer, tuned: Mapping[str, Component], speak: Speak | None = None
) -> None:
    """Lay the panel out within `page`. tuned: the controls of the Listen tab; speak: as in `prepare`."""
    choices = [*(method.upper() for method in METHODS), *(preset.name for preset in PAPERS)]
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"), gr.Column(elem_classes="lab-form"):
            design = gr.Radio(
                [(title, key) for key, title in DESIGNS.items()], value="ab", label="Question", elem_id="listening-design"
            )
            compared = gr.Dropdown(
                choices, value=["AR", "PCG"], multiselect=True, label="Compare", elem_id="listening-compared",
                info="Methods as the Listen tab is tuned, by its voice, and the papers' settings. Where scores are given, the "
                "first is hidden among the others, as is a muffled copy of it.",
            )  # fmt: skip
            trials = gr.Slider(1, MOST_ASKED, TRIALS, step=1, label="Trials", buttons=[], elem_id="listening-trials")
            seed = controls.setting("seed", "listening-", label="Seed of the test", info=None)
            run, stop = controls.run_and_stop("listening-", "Prepare the test")
            status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="listening-status")
            make = gr.Button("Make a link to this test", size="md", elem_id="listening-link-make")
            link = gr.Textbox(
                label="Link to this test", info="It fixes texts, systems, seed and order.", visible=False, interactive=False,
                buttons=["copy"], lines=2, elem_id="listening-link",
            )  # fmt: skip
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            with gr.Column(elem_classes="lab-card"):
                gr.HTML(HEADING, apply_default_css=False)
                ballot = gr.HTML(
                    {"number": None, "told": READY}, html_template='<div class="ballot"></div>',
                    js_on_load=SCRIPT.read_text(encoding="utf-8"), apply_default_css=False, elem_id="listening-ballot",
                )  # fmt: skip
            with gr.Column(elem_classes="lab-card", visible=False, elem_id="listening-revealed") as revealed:
                reveal = gr.HTML("", apply_default_css=False, elem_id="listening-reveal")
                file = gr.File(label="Every vote", interactive=False, elem_id="listening-file")
    own = [design, compared, trials, seed]
    inputs = [*own, *(tuned[name] for name in NAMES[len(own) :])]
    state, address = gr.State(), gr.Textbox(visible=False, label="address")
    decode = on_gpu(partial(prepare, synthesizer, speak=speak), lambda *_: LONGEST_SECONDS)
    render = on_gpu(partial(sounds, synthesizer), lambda *_: STARTING_SECONDS)

    def asked(values: tuple[object, ...]) -> ListeningRequest:
        return ListeningRequest(**dict(zip(NAMES, values, strict=True)))

    def shown(test: BlindTest) -> Iterator[Updates]:
        over, asked_next = test.over, question(test)
        updates: Updates = {
            revealed: gr.update(visible=over), reveal: result_html(test) if over else "", state: test,
            status: message_html(OVER if over else WAITING),
        }  # fmt: skip
        with TemporaryDirectory() as folder:
            if not over:
                paths = [Path(folder) / f"{letter}.wav" for letter in test.plan.design.letters]
                # Fresh noise, so that the bytes cannot be predicted from the seed.
                for path, samples in zip(paths, render(test, np.random.default_rng()), strict=True):
                    write_wav(path, samples, synthesizer.voice.codec.sample_rate)
                asked_next["sounds"] = [{"path": str(path), "meta": {"_type": "gradio.FileData"}} for path in paths]
            # Gradio has copied the files to its cache when it asks for the next step.
            yield updates | {ballot: gr.update(value=asked_next), file: export(Path(folder), test) if over else None}

    @controls.with_parameters(*NAMES)
    def prepare_test(*values: object) -> Iterator[Updates]:
        with showing_errors(), closing(decode(asked(values))) as steps:
            for step in steps:
                yield from [{status: message_html(step)}] if isinstance(step, str) else shown(step)

    def cast(test: BlindTest | None, event: gr.EventData) -> Iterator[Updates]:
        given = controls.event_values(event)
        with showing_errors():
            after = vote(test, given.get("trial"), given.get("answer"), given.get("plays"))
        yield from shown(after)

    @controls.with_parameters(*NAMES, "address")
    def make_link(*values: object) -> object:
        *request, here = values
        with showing_errors():
            return gr.update(value=write_test(asked(request), here), visible=True)

    def open_link(opened: str) -> Updates:
        try:
            request = read_test(opened or "", synthesizer)
        except PCGError as error:
            return {status: message_html(escape(plain(error)))}
        if request is None:
            return {status: gr.skip()}
        return dict(zip(inputs, dict(request).values(), strict=True)) | {status: message_html(SENT)}

    outputs = [ballot, revealed, reveal, file, state, status]
    running = run.click(prepare_test, inputs, outputs, **controls.queued_beside(status), api_visibility="private")
    controls.wire_stop(stop, running, status, "Stopped. An earlier test stays.")
    # A vote does not wait for a take that is being generated.
    ballot.vote(cast, state, outputs, **controls.PRIVATE | {"queue": True, "concurrency_limit": None})
    make.click(make_link, [*inputs, address], link, js=WITH_ADDRESS, **controls.PRIVATE)
    page.load(open_link, address, [*inputs, status], js=OPENED, **controls.PRIVATE)
