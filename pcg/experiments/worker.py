"""Whoever does a unit: a voice that says it, and the judges who hear it."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from os.path import isdir
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from pcg.analysis.swap import Swapped, mel_distance, swap, swap_coins
from pcg.analysis.whatif import Trace, trace
from pcg.asr.embedded import EMBEDDED as RECOGNISER
from pcg.asr.judges import load_judge
from pcg.errors import InputError
from pcg.experiments.context import context
from pcg.experiments.recordings import read_recording, recorded_take
from pcg.experiments.spoofing import JUDGED, judge_name, spoof
from pcg.experiments.unit import RECORDED, Condition, Hearing, Record, Result, Unit, Utterance
from pcg.experiments.variants import Variants
from pcg.metrics.intelligibility import NORMALISED, char_errors, word_errors
from pcg.metrics.quality import DNSMOS
from pcg.metrics.recording import JUDGE_RATE, for_judges
from pcg.metrics.speaker import cosine, speaker_encoder
from pcg.models.hub import add_content, codec_folder, is_from_hub, model_folder
from pcg.rules import Rule
from pcg.saved_take import PRECISIONS
from pcg.settings import Settings
from pcg.spoof.detectors import load_detectors
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import AUTO, EMBEDDED, auto_precision, load_voice, named_draft
from pcg.take import Take
from pcg.text.prompt import Reference

# More methods and thetas than a grid has: one that was dropped would be warmed up again at every utterance.
METHODS_KEPT = 256
TAKES_KEPT = 4
RESEMBLYZER = "resemblyzer"
# Raise it when a measure changes while its package stays as it is.
MEASURES = 2
# Where no reference fixes the voice, all conditions are compared with the speaker of this one's take.
CHOSEN_VOICE = Condition("", Settings("ar"))
JUDGING_PACKAGES = ("faster-whisper", "resemblyzer", "speechmos")


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker is made of, small enough to be sent to another process.

    model: as `pcg.synthesis.voice.load_voice` takes it. judge: who writes down the words (`pcg.asr.judges.JUDGES`), or
    several of them with commas between, of whom the first counts where there is room for one.
    threads: of torch in each worker; floats, and so results, may differ in their last digits with another number. dnsmos: ask
    for it, too; a third of a second of work on a CPU, nearly as much as speaking. cache: of groups, None for the usual. draft:
    as `pcg.synthesis.voice.choose_draft` takes it. detectors: a folder of spoof detectors, None for the shipped ones. speaker:
    who compares speakers (`pcg.metrics.speaker.speaker_encoder`). precision: of the model, as `load_voice` takes it.
    """

    model: str = "embedded"
    judge: str = "whisper"
    device: str = "cpu"
    threads: int = 1
    dnsmos: bool = True
    cache: Path | None = None
    draft: str = AUTO
    detectors: Path | None = None
    speaker: str = RESEMBLYZER
    precision: str = AUTO

    def __post_init__(self) -> None:
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or self.threads < 1:
            raise InputError("threads", self.threads, "a whole number from 1 up")

    @property
    def judges(self) -> tuple[str, ...]:
        return tuple(self.judge.split(","))

    @cached_property
    def voice_id(self) -> str:
        """A digest of who speaks (the content of the model's files, the device, since each rounds in its own way) and of who
        judges. Nothing is loaded for it. Raises AssetError where a file cannot be read."""
        judging = [(package, version(package)) for package in JUDGING_PACKAGES]
        digest = hashlib.sha256(repr((MEASURES, self.device, self.judge, self.dnsmos, judging)).encode())
        folder = model_folder(self.model, EMBEDDED, self.device)
        add_content(digest, folder)
        if is_from_hub(folder) and not (codec := codec_folder(folder, self.device)).is_relative_to(folder):
            add_content(digest, codec)
        if "embedded" in self.judges:
            add_content(digest, RECOGNISER)
        if (named := named_draft(self.draft, folder / "draft")) or isdir(self.draft):
            add_content(digest, named or Path(self.draft))
        elif self.draft != AUTO:  # which leaves no mark, as there were results before there was a choice
            digest.update(self.draft.encode())
        if self.detectors:
            add_content(digest, self.detectors)
        if self.speaker != RESEMBLYZER:
            digest.update(self.speaker.encode())
        precision = auto_precision(self.device) if self.precision == AUTO else self.precision
        if precision != PRECISIONS[self.device]:
            digest.update(precision.encode())
        return digest.hexdigest()[:16]

    def load(self) -> "Worker":
        return Worker(self)


class Sounding(NamedTuple):
    """A unit to be heard: `samples [N]`, float32, at `sample_rate`; its tokens, and the positions that a swap replaced."""

    samples: np.ndarray
    sample_rate: int
    tokens: tuple[int, ...]
    swapped: tuple[int, ...] = ()


class Worker:
    """Does units, one at a time. `judges` says by metric who judges."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec, self.voice_id = spec, spec.voice_id
        with self._threads():
            given = load_detectors(spec.detectors) if spec.detectors else None
            voice = load_voice(spec.model, spec.device, spec.draft, spec.precision)
            self._target = Synthesizer(voice, spec.cache, detectors=given)
            self._detectors = self._target.decoder.detectors
            self._variants = Variants(self._target)
            self._words = {name: load_judge(name, spec.device) for name in spec.judges}
            self._speaker = speaker_encoder(spec.speaker, spec.device)
            self._mos = DNSMOS() if spec.dnsmos else None
        first, *others = self._words.values()
        self.judges = {
            "WER, CER": f"{first.name}; {NORMALISED}",
            **{f"WER, CER by {name}": judge.name for name, judge in zip(spec.judges[1:], others, strict=True)},
            "Speaker": f"cosine by {self._speaker.name} to {self._likeness()}",
        }
        if self._mos:
            self.judges["DNSMOS"] = f"{self._mos.name}; less than nine seconds repeated to fill one window"
        if self._detectors:
            self.judges[JUDGED] = judge_name(self._detectors)
        self._method = lru_cache(METHODS_KEPT)(self._prepared)
        self._reference = lru_cache(METHODS_KEPT)(self._found)
        self._embedded = lru_cache(METHODS_KEPT)(self._embedded_reference)
        self._take = lru_cache(TAKES_KEPT)(self._said)
        self._before_swap = lru_cache(TAKES_KEPT)(self._rendered)

    def record(self, unit: Unit, workers: int = 1) -> Record:
        """`run`, with where it was done; `workers` are at work side by side."""
        result, voice = self.run(unit), self._target.voice
        facts = context(self.spec.device, voice.precision, self.spec.threads, workers, self.judges)
        return Record(unit, result, facts | {"model": voice.name, "voice": self.voice_id, "licence": voice.licence})

    def run(self, unit: Unit) -> Result:
        """Say the unit and judge it. The first unit of a method warms it up, before anything is timed."""
        with self._threads():
            take, sounding = self._take(_plain(unit)), self._sounding(unit)
            audio, rate = sounding.samples, sounding.sample_rate
            before, like = self._before_swap(_plain(unit)) if unit.condition.swap else (None, self._embedded(unit.utterance))
            heard_audio = for_judges(audio, rate)
            first, *others = (self._hearing(name, take.text, heard_audio) for name in self._words)
            tested, accepted_at = take.counts_by_position
            return Result(
                tokens=sounding.tokens,
                heard=first.heard,
                words=first.words,
                characters=first.characters,
                similarity=cosine(self._speaker.embed(heard_audio, JUDGE_RATE), like),
                dnsmos=self._quality(heard_audio),
                rounds=len(take.rounds),
                drafted=take.drafted,
                accepted=sum(r.accepted for r in take.rounds),
                tested=tested,
                accepted_at=accepted_at,
                trials=sum(r.trials for r in take.rounds),
                hit_limit=take.hit_limit,
                swapped=len(sounding.swapped) / max(1, len(sounding.tokens)),
                mel_distance=None if before is None else mel_distance(before, audio, rate),
                audio_seconds=len(audio) / rate,
                decoding_seconds=1e-3 * take.decoding_ms,
                wall_seconds=take.wall_seconds,
                computed=round(take.computed_per_token * len(take.tokens)),
                spoof=spoof(self._detectors, sounding.tokens) if self._detectors else None,
                also_heard=tuple(others),
                trace=self._trace(unit, take),
            )

    def take(self, unit: Unit) -> Take:
        """The unit's take, spoken again (all but its times is as it was); a swap comes after it, and is not done."""
        with self._threads():
            return self._take(_plain(unit))

    def sound(self, unit: Unit) -> Sounding:
        """What the judges hear of the unit."""
        with self._threads():
            return self._sounding(unit)

    def _sounding(self, unit: Unit) -> Sounding:
        take, reference = self._take(_plain(unit)), self._reference(unit.utterance)
        if unit.condition.swap is None:
            return Sounding(take.audio, take.sample_rate, take.tokens)
        after = self._swapped(unit, take.tokens)
        samples = self._target.decode(list(after.tokens), reference)
        return Sounding(samples, take.sample_rate, after.tokens, after.positions)

    def _hearing(self, judge: str, text: str, audio: np.ndarray) -> Hearing:
        (heard,) = self._words[judge].transcribe([audio], JUDGE_RATE)
        words, characters = word_errors(text, heard), char_errors(text, heard)
        return Hearing(judge, heard, (words.errors, words.length), (characters.errors, characters.length))

    def _trace(self, unit: Unit, take: Take) -> Trace | None:
        if unit.condition.model != "target" or unit.condition.swap or take.hit_limit:
            return None
        return trace(self._target, take, self._reference(unit.utterance))

    def _quality(self, heard: np.ndarray) -> float | None:
        """DNSMOS. Its own way with a short utterance is the mean over up to nine windows of the utterance's repetition, which
        hold the same speech again and cost more than everything else together: here one window is enough."""
        if self._mos is None:
            return None
        short = 0 < len(heard) < DNSMOS.SEGMENT
        return self._mos.score(np.resize(heard, DNSMOS.SEGMENT) if short else heard, JUDGE_RATE)

    def _swapped(self, unit: Unit, tokens: Sequence[int]) -> Swapped:
        wanted = unit.condition.swap
        groups = self._target.groups(wanted.theta, wanted.similarity)
        return swap(tokens, groups, wanted, self._target.voice.usage > 0, swap_coins(unit.settings.seed))

    def _said(self, unit: Unit) -> Take:
        condition, said = unit.condition, unit.utterance
        if condition.model in RECORDED:
            return recorded_take(unit, self._target.voice.codec)
        synthesizer, rule = self._method(unit.settings.with_(seed=0), condition.model, condition.rule)
        return synthesizer.take(said.text, unit.settings, said.voice, self._reference(said), rule)

    def _prepared(self, settings: Settings, model: str, variant: str) -> tuple[Synthesizer, Rule | None]:
        """Who speaks by a method and its rule, after a first take: that compiles what later takes find compiled."""
        synthesizer = self._draft if model == "draft" else self._target
        rule = None
        if settings.method != "ar":
            rule = self._variants.variant_rule(variant, settings) if variant else synthesizer.rule(settings)
        synthesizer.take("Warming up.", settings, next(iter(synthesizer.voice.references)), rule=rule)
        return synthesizer, rule

    @cached_property
    def _draft(self) -> Synthesizer:
        """The draft as a voice of its own."""
        voice = self._target.voice
        if not voice.draft_speaks_alone:
            raise InputError("draft", voice.draft_kind, "a model where the draft speaks alone")
        return Synthesizer(replace(voice, target=voice.draft), self.spec.cache, detectors=self._detectors)

    def _found(self, said: Utterance) -> Reference:
        voice = self._target.voice
        if said.reference:
            return voice.reference_from_audio(Path(said.reference), said.reference_text)
        return voice.reference(said.voice)

    def _likeness(self) -> str:
        known = all(len(reference.codes) for reference in self._target.voice.references.values())
        rendering = "the reference (a recording, or else the codec's rendering of a known voice)"
        return rendering if known else f"{rendering}, or to AR's take of seed 0 where the model chooses the voice"

    def _embedded_reference(self, said: Utterance) -> np.ndarray:
        codec, codes = self._target.voice.codec, self._reference(said).codes
        if said.reference:
            return self._speaker.embed(read_recording(said.reference, codec.sample_rate), codec.sample_rate)
        heard = codec.decode(codes).numpy() if len(codes) else self._take(Unit(said, CHOSEN_VOICE, 0)).audio
        return self._speaker.embed(heard, codec.sample_rate)

    def _rendered(self, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
        """The sound before the swap and its speaker, decoded as the one after it is: in one piece, even if it is long."""
        audio = self._target.decode(list(self._take(unit).tokens), self._reference(unit.utterance))
        return audio, self._speaker.embed(audio, self._target.voice.codec.sample_rate)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """The spec's threads, for as long as the worker works: the process may have other work."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.spec.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _plain(unit: Unit) -> Unit:
    """The unit before its swap, under no name, so that conditions that differ in these alone share a take."""
    return replace(unit, condition=replace(unit.condition, name="", swap=None))
