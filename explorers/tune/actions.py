"""What the Tune panel does: streams a take, measures it, and compares it with AR. Knows nothing of gradio."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter

from explorers.compare import actions as speaking
from explorers.compare.actions import NO_TEXT, Transcribe, new_seed, token_rate
from explorers.session import Turn
from explorers.shared.readout import message_html, progress_html
from explorers.shared.scripts import packed
from explorers.tune.measured import Bench, Measured
from explorers.tune.strip import run_prop, sound_prop, spoof_prop
from pcg.analysis.whatif import WhatIf, what_if
from pcg.bench.methods import step_costs
from pcg.errors import InputError
from pcg.experiments.spoofing import fitting
from pcg.prompts.prompt import Reference
from pcg.prompts.text import check_text
from pcg.settings import Settings
from pcg.spoof.detector import RESOLUTIONS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Round, Sound, Take

PROGRESS_SECONDS = 0.08
COST_REPEATS = 3
STOPPED = "Stopped."


@dataclass(frozen=True)
class TuneRequest:
    """The values of the controls, in their order. seed: None draws a random one."""

    text: str
    voice: str
    method: str
    theta: float
    lookahead: int
    beta: float
    similarity: str
    temperature: float
    seed: int | None
    adaptive: bool
    recording: str | None = None
    transcript: str = ""
    consent: bool = False
    sampler: str = "plain"
    top_k: int = 0
    top_p: float = 0.0

    @property
    def settings(self) -> Settings:
        seed = new_seed() if self.seed is None else self.seed
        knobs = {"theta": self.theta, "lookahead": self.lookahead, "beta": self.beta, "temperature": self.temperature}
        sampling = {"sampler": self.sampler, "top_k": self.top_k, "top_p": self.top_p}
        return Settings(self.method, **knobs, **sampling, seed=seed, adaptive=self.adaptive, similarity=self.similarity)

    @property
    def voice_request(self) -> speaking.CompareRequest:
        """The part that Compare knows: text, voice and recording."""
        knobs = (self.theta, self.lookahead, self.beta, self.temperature, self.seed or 0)
        own = (self.recording, self.transcript, self.consent)
        return speaking.CompareRequest(self.text, self.voice, *knobs, *own)


@dataclass(frozen=True)
class TuneStep:
    """What has changed: always the status; `run`, `sound` and `spoof` for the strip; a finished `take`, with the `reference`
    that it was spoken with if that was the visitor's own; the `bench` after it. recognised: see
    `explorers.compare.actions.CompareRequest.recognised`."""

    status: str
    run: dict[str, object] | None = None
    sound: dict[str, object] | None = None
    spoof: dict[str, object] | None = None
    seed: int | None = None
    take: Take | None = None
    reference: Reference | None = None
    bench: Bench | None = None
    recognised: str | None = None


def tune(
    synthesizer: Synthesizer, request: TuneRequest, bench: Bench, turn: Turn, transcribe: Transcribe | None = None
) -> Iterator[TuneStep]:
    """Stream one take; then run the detectors, and estimate what other settings would have accepted.

    Ends early, without a take, once `turn` has passed on. Closing the generator stops it, too. transcribe: recognises the words
    of a recording that comes without its transcript.
    """
    text, settings = check_text(request.text), request.settings
    voice, reference = request.voice_request.speaker(synthesizer, transcribe)
    number = turn.next()
    partial = _Partial(number, settings.method, _expected(synthesizer, text, voice, reference))
    recognised = request.voice_request.recognised(synthesizer, reference)
    yield replace(partial.step(token_rate(synthesizer), sounding=True), seed=settings.seed, recognised=recognised)
    with closing(synthesizer.speak(text, settings, voice, reference, stream=True)) as events:
        for event in events:
            if turn.number != number:
                partial.live = False
                yield replace(partial.step(token_rate(synthesizer)), status=message_html(STOPPED))
                return
            if isinstance(event, Take):
                break
            if partial.add(event):
                yield partial.step(token_rate(synthesizer), sounding=isinstance(event, Sound))
    bench = bench.spoken(Measured.of(event, synthesizer.voice.draft_kind))
    partial.live = False
    yield replace(partial.step(token_rate(synthesizer)), status=_done(event), take=event, reference=reference, bench=bench)
    # Once a knob has moved, the next take must not wait for the analysis of this one.
    if detectors := fitting(synthesizer):
        curves: dict[str, list[float]] = {}
        for resolution in RESOLUTIONS:
            if turn.number != number:
                return
            curves[resolution.name] = detectors.curve(event.tokens, resolution).tolist()
        yield TuneStep(_done(event), spoof=spoof_prop(number, detectors.name, curves))
    if turn.number == number:
        yield TuneStep(_done(event), bench=replace(bench, estimate=_estimate(synthesizer, event, reference)))


def tune_again(
    synthesizer: Synthesizer, request: TuneRequest, bench: Bench, turn: Turn, transcribe: Transcribe | None = None
) -> Iterator[TuneStep]:
    """`tune`, after a change of a knob; without a text nothing happens, and there is no error."""
    if request.text.strip():
        yield from tune(synthesizer, request, bench, turn, transcribe)
    else:
        yield TuneStep(message_html(NO_TEXT))


def time_ar(
    synthesizer: Synthesizer, request: TuneRequest, bench: Bench, turn: Turn, transcribe: Transcribe | None = None
) -> Iterator[TuneStep]:
    """Measure AR with the same text, voice and temperature, streamed as every take here is; then time the steps of a round."""
    text, settings = check_text(request.text), request.settings
    voice, reference = request.voice_request.speaker(synthesizer, transcribe)
    number, rate = turn.next(), token_rate(synthesizer)
    partial = _Partial(number, "ar", 0.0)
    yield TuneStep(progress_html("ar", ("ar",), (), (), rate))
    with closing(synthesizer.speak(text, settings.with_(method="ar"), voice, reference, stream=True)) as events:
        for event in events:
            if turn.number != number:
                yield TuneStep(message_html(STOPPED))
                return
            if isinstance(event, Take):
                break
            if partial.add(event):
                yield TuneStep(partial.progress(rate))
    speaker = reference or synthesizer.voice.reference(voice)
    prompt = synthesizer.voice.reader.prompt(synthesizer.chunks(text)[0], speaker)
    costs = step_costs(synthesizer.voice, prompt, settings.lookahead, settings.temperature, COST_REPEATS)
    bench = bench.timed(Measured.of(event, synthesizer.voice.draft_kind), settings.lookahead, costs)
    yield TuneStep(message_html(f"AR measured: {event.tokens_per_second:.0f} tokens/s."), bench=bench)


Spoken = Callable[[TuneRequest, Bench, Turn], Iterator[TuneStep]]


def until_halted(spoken: Spoken, request: TuneRequest, bench: Bench, turn: Turn) -> Iterator[TuneStep]:
    """`spoken`, where it runs in another process and so has a copy of `turn`: ours is watched here."""
    number, run = turn.next(), None
    with closing(spoken(request, bench, turn)) as steps:
        for step in steps:
            if turn.number != number:
                yield TuneStep(message_html(STOPPED), run=run and {**run, "live": False})
                return
            run = step.run or run
            yield step


class _Partial:
    """A take that is still being generated, reported at a modest rate."""

    def __init__(self, number: int, method: str, expected: float) -> None:
        self.live = True
        self._number, self._method, self._expected = number, method, expected
        self._rounds: list[Round] = []
        self._pieces: list[str] = []
        self._reported = perf_counter()

    def add(self, event: Round | Sound) -> bool:
        """Add an event; return whether it is time to report: sound does not wait."""
        if isinstance(event, Sound):
            self._pieces.append(packed(event.samples))
            return True
        self._rounds.append(event)
        return perf_counter() - self._reported >= PROGRESS_SECONDS

    def progress(self, rate: float) -> str:
        self._reported = perf_counter()
        kinds = [kind for r in self._rounds for kind in r.kinds]
        sizes = [size for r in self._rounds for size in r.group_sizes]
        return progress_html(self._method, (self._method,), kinds, sizes, rate)

    def step(self, rate: float, sounding: bool = False) -> TuneStep:
        run = run_prop(self._number, self._method, self._rounds, self._expected, self.live)
        return TuneStep(self.progress(rate), run, sound_prop(self._number, self._pieces) if sounding else None)


def _expected(synthesizer: Synthesizer, text: str, voice: str, reference: Reference | None) -> float:
    """About how many tokens the text will take at the pace of the voice."""
    return synthesizer.voice.reader.tokens_for(text, reference or synthesizer.voice.reference(voice))


def _estimate(synthesizer: Synthesizer, take: Take, reference: Reference | None) -> WhatIf | None:
    try:
        return what_if(synthesizer, take, reference)
    except InputError:  # a long text that was cut somewhere: the take stands, without estimates
        return None


def _done(take: Take) -> str:
    words = f"{take.settings.method.upper()}: {take.audio_seconds:.2f} s of sound from {take.wall_seconds:.2f} s of work."
    return message_html(words + (" Cut at the length limit." if take.hit_limit else ""))
