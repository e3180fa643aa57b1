"""Runs one experiment unit: synthesis, then every judge."""

import hashlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from os.path import isdir
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from pcg.asr.embedded import EMBEDDED as RECOGNISER
from pcg.asr.judges import FIRST_JUDGE, JUDGES, load_judge
from pcg.audio import load_audio
from pcg.codec.codec import Codec
from pcg.errors import InputError
from pcg.experiments.unit import FORMAT, RECORDED, Condition, JudgeTranscript, Record, Result, Unit, Utterance
from pcg.files import __version__
from pcg.groups.audition import mel_distance
from pcg.groups.swap import swap, swap_coins
from pcg.metrics.intelligibility import NORMALISED, Judge, char_errors, word_errors
from pcg.metrics.quality import DNSMOS, JUDGE_RATE, DistillMOS, Resemblyzer, cosine, for_judges
from pcg.models import kernel
from pcg.models.hub import add_content, codec_folder, is_from_hub, model_folder
from pcg.rules import Rule, named_rule
from pcg.saved_take import PRECISIONS
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import AUTO, EMBEDDED, auto_precision, load_voice
from pcg.synthesis.whatif import surprisal
from pcg.take import Round, Take
from pcg.text.prompt import Reference

# More methods and thetas than a grid has: a dropped one would be warmed up again at every utterance.
METHODS_KEPT = 256
TAKES_KEPT = 16
# Raise it when a measure changes while its package does not.
MEASURES = 2
JUDGING_PACKAGES = ("faster-whisper", "resemblyzer", "speechmos")
LONGEST_SECONDS = 60.0
# Of torch in each worker: results may differ in their last digits with another number.
THREADS = 1


@dataclass(frozen=True)
class WorkerSpec:
    """The parts of a worker, small enough to be sent to another process.

    model, draft, precision: as `load_voice` takes them. judge: one of `pcg.asr.judges.JUDGES`, or several with commas between.
    cache: of groups.
    """

    model: str = "embedded"
    judge: str = FIRST_JUDGE
    device: str = "cpu"
    dnsmos: bool = True
    cache: Path | None = None
    draft: str = AUTO
    precision: str = AUTO

    def __post_init__(self) -> None:
        if not set(self.judges) <= set(JUDGES) or len(set(self.judges)) < len(self.judges):
            raise InputError("judge", self.judge, f"one of {', '.join(JUDGES)}, or several with commas between")

    @property
    def judges(self) -> tuple[str, ...]:
        return tuple(self.judge.split(","))

    @cached_property
    def voice_id(self) -> str:
        """A digest of the voice (the content of its files, and the device, as each rounds in its own way) and the judges.

        Nothing is loaded for it. Raises AssetError where a file cannot be read.
        """
        judging = [(package, version(package)) for package in JUDGING_PACKAGES]
        digest = hashlib.sha256(repr((MEASURES, self.device, self.judge, self.dnsmos, judging)).encode())
        folder = model_folder(self.model, EMBEDDED, self.device)
        add_content(digest, folder)
        if is_from_hub(folder) and not (codec := codec_folder(folder, self.device)).is_relative_to(folder):
            add_content(digest, codec)
        if "embedded" in self.judges:
            add_content(digest, RECOGNISER)
        if isdir(self.draft):
            add_content(digest, Path(self.draft))
        elif self.draft != AUTO:  # which leaves no mark, as there were results before there was a choice
            digest.update(self.draft.encode())
        precision = auto_precision(self.device) if self.precision == AUTO else self.precision
        if precision != PRECISIONS[self.device]:
            digest.update(precision.encode())
        return digest.hexdigest()[:16]

    def load(self) -> "Worker":
        return Worker(self)


class Sounding(NamedTuple):
    """Samples `[N]`, float32, with their tokens and the positions that a swap replaced."""

    samples: np.ndarray
    sample_rate: int
    tokens: tuple[int, ...]
    swapped: tuple[int, ...] = ()


class Worker:
    """Runs units, one at a time. `judges`: the names by metric."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec, self.voice_id = spec, spec.voice_id
        with _threads():
            voice = load_voice(spec.model, spec.device, spec.draft, spec.precision)
            self._target = Synthesizer(voice, spec.cache)
            self._words = {name: load_judge(name, spec.device) for name in spec.judges}
            self._speaker = Resemblyzer()
            self._mos = DNSMOS() if spec.dnsmos else None
            self._distilled = DistillMOS() if spec.dnsmos and DistillMOS.is_here() else None
        first, *others = self._words.values()
        like = "the reference (a recording, or else the codec's rendering of a known voice)"
        if not all(len(reference.codes) for reference in voice.references.values()):
            like += ", or to AR's take of seed 0 where the model chooses the voice"
        self.judges = {
            "WER, CER": f"{first.name}; {NORMALISED}",
            **{f"WER, CER by {name}": judge.name for name, judge in zip(spec.judges[1:], others, strict=True)},
            "Speaker": f"cosine by {self._speaker.name} to {like}",
        }
        if self._mos:
            self.judges["DNSMOS"] = f"{self._mos.name}; less than nine seconds repeated to fill one window"
        if self._distilled:
            self.judges["DistillMOS"] = self._distilled.name
        kept = {self._method: METHODS_KEPT, self._reference: METHODS_KEPT, self._reference_speaker: METHODS_KEPT}
        for call, count in (kept | {self._take: TAKES_KEPT, self._before_swap: TAKES_KEPT}).items():
            setattr(self, call.__name__, lru_cache(count)(call))

    def record(self, unit: Unit, workers: int = 1) -> Record:
        """Run the unit, and add where; `workers`: how many run side by side."""
        result, voice = self.run(unit), self._target.voice
        facts = context(self.spec.device, voice.precision, THREADS, workers, self.judges)
        return Record(unit, result, facts | {"model": voice.name, "voice": self.voice_id, "licence": voice.licence})

    def run(self, unit: Unit) -> Result:
        """Say the unit and judge it. The first unit of a method warms it up before anything is timed."""
        said, condition = unit.utterance, unit.condition
        with _threads():
            take, (audio, rate, tokens, swapped) = self._take(_plain(unit)), self.sound(unit)
            before, like = self._before_swap(_plain(unit)) if condition.swap else (None, self._reference_speaker(said))
            heard_audio = for_judges(audio, rate)
            first, *others = (hear(name, judge, take.text, heard_audio) for name, judge in self._words.items())
            # DNSMOS of a short utterance over one window: the usual nine would hold the same speech again.
            short = 0 < len(heard_audio) < DNSMOS.SEGMENT
            window = np.resize(heard_audio, DNSMOS.SEGMENT) if short else heard_audio
            likely = condition.model == "target" and not condition.swap and not take.hit_limit
            counts = take.counts_by_position
            return Result(
                tokens=tokens,
                heard=first.heard,
                words=first.words,
                characters=first.characters,
                similarity=cosine(self._speaker.embed(heard_audio, JUDGE_RATE), like),
                dnsmos=self._mos.score(window, JUDGE_RATE) if self._mos else None,
                distillmos=self._distilled.score(heard_audio, JUDGE_RATE) if self._distilled else None,
                rounds=len(take.rounds),
                drafted=take.drafted,
                accepted=sum(r.accepted for r in take.rounds),
                tested=tuple(counts["tested"]),
                accepted_at=tuple(counts["accepted"]),
                trials=sum(r.trials for r in take.rounds),
                hit_limit=take.hit_limit,
                swapped=len(swapped) / max(1, len(tokens)),
                mel_distance=None if before is None else mel_distance(before, audio, rate),
                audio_seconds=len(audio) / rate,
                decoding_seconds=1e-3 * take.decoding_ms,
                wall_seconds=take.wall_seconds,
                also_heard=tuple(others),
                nats=round(surprisal(self._target, take, self._reference(said)), 2) if likely else None,
            )

    def sound(self, unit: Unit) -> Sounding:
        """Return the sound that the judges hear."""
        wanted = unit.condition.swap
        with _threads():
            take = self._take(_plain(unit))
            if wanted is None:
                return Sounding(take.audio, take.sample_rate, take.tokens)
            groups, usable = self._target.groups(wanted.theta, wanted.similarity), self._target.voice.usage > 0
            after = swap(take.tokens, groups, wanted, usable, swap_coins(unit.settings.seed))
            samples = self._target.decode(list(after.tokens), self._reference(unit.utterance))
            return Sounding(samples, take.sample_rate, after.tokens, after.positions)

    def _take(self, unit: Unit) -> Take:
        condition, said = unit.condition, unit.utterance
        if condition.model in RECORDED:
            return recorded_take(unit, self._target.voice.codec)
        synthesizer, rule = self._method(unit.settings.with_(seed=0), condition.model, condition.rule)
        return synthesizer.take(said.text, unit.settings, said.voice, self._reference(said), rule)

    def _method(self, settings: Settings, model: str, variant: str) -> tuple[Synthesizer, Rule | None]:
        """Return the synthesizer and the rule of a method after a first take, which compiles its loops."""
        synthesizer = self._draft if model == "draft" else self._target
        rule = None
        if settings.method != "ar":
            rule = named_rule(variant, synthesizer.library.neighbours) if variant else synthesizer.rule(settings)
        synthesizer.take("Warming up.", settings, next(iter(synthesizer.voice.references)), rule=rule)
        return synthesizer, rule

    @cached_property
    def _draft(self) -> Synthesizer:
        """The draft as a separate voice."""
        voice = self._target.voice
        if not voice.draft_speaks_alone:
            raise InputError("draft", voice.draft_kind, "a model where the draft speaks alone")
        return Synthesizer(replace(voice, target=voice.draft), self.spec.cache)

    def _reference(self, said: Utterance) -> Reference:
        voice = self._target.voice
        if said.reference:
            return voice.reference_from_audio(Path(said.reference), said.reference_text)
        return voice.reference(said.voice)

    def _reference_speaker(self, said: Utterance) -> np.ndarray:
        codec, codes = self._target.voice.codec, self._reference(said).codes
        if said.reference:
            audio = load_audio(Path(said.reference), codec.sample_rate, LONGEST_SECONDS)
        elif len(codes):
            audio = codec.decode(codes).numpy()
        else:  # where nothing fixes the voice, all conditions are compared with one take
            audio = self._take(Unit(said, Condition("", Settings("ar")), 0)).audio
        return self._speaker.embed(audio, codec.sample_rate)

    def _before_swap(self, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
        """Return the sound before the swap and its speaker, decoded in one piece as the sound after it is."""
        audio = self._target.decode(list(self._take(unit).tokens), self._reference(unit.utterance))
        return audio, self._speaker.embed(audio, self._target.voice.codec.sample_rate)


@contextmanager
def _threads() -> Iterator[None]:
    """Set THREADS of torch while a worker works."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def hear(name: str, judge: Judge, text: str, audio: np.ndarray) -> JudgeTranscript:
    """Let a judge write down `audio [N]` at JUDGE_RATE, and count the errors against `text`."""
    (heard,) = judge.transcribe([audio], JUDGE_RATE)
    words, characters = word_errors(text, heard), char_errors(text, heard)
    return JudgeTranscript(name, heard, (words.errors, words.length), (characters.errors, characters.length))


def _plain(unit: Unit) -> Unit:
    """Return the unit without swap and name, so that conditions that differ in these alone share a take."""
    return replace(unit, condition=replace(unit.condition, name="", swap=None))


def recorded_take(unit: Unit, codec: Codec) -> Take:
    """Return the recording of the unit's text as a take without times, for the model "codec" through the codec."""
    said, tokens = unit.utterance, ()
    if said.recording:
        audio = load_audio(Path(said.recording), codec.sample_rate, LONGEST_SECONDS)
    else:
        from pcg.training.corpus import recorded  # of training the only part that measuring needs

        audio = recorded(said.voice, said.text, codec.sample_rate)
    if unit.condition.model == "codec":
        codes = codec.encode(torch.from_numpy(audio))
        audio, tokens = codec.decode(codes).numpy(), tuple(codes.tolist())
    rounds = (Round(tokens, ("target",) * len(tokens), (1,) * len(tokens), ended=True),) if tokens else ()
    return Take(said.text, said.voice, unit.settings, rounds, audio, codec.sample_rate, False, 0.0, 0.0, 0.0)


def context(device: str, precision: str, threads: int, workers: int, judges: Mapping[str, str]) -> dict[str, object]:
    """Return the machine, versions, threads, workers, judges and date of a record; no names of hosts or users."""
    made = {"precision": precision, "threads": threads, "workers": workers, "judges": dict(judges)}
    return _machine(device) | made | {"date": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _machine(device: str) -> dict[str, object]:
    # On Linux `platform` knows only the processor's architecture.
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines() if table.is_file() else []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    kind = [f"{word} {facts[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in facts]
    name = facts.get("model name") or platform.processor() or platform.machine() or sys.platform
    # Times of different CPU kernels are not compared.
    kernels = b"".join(file.read_bytes() for file in sorted(Path(kernel.__file__).parent.glob("*.py")))
    versions = {"python": platform.python_version(), "torch": version("torch"), "transformers": version("transformers")}
    return {
        "processor": f"{name} ({', '.join(kind)})" if kind else name,
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        **versions,
        "pcg": __version__,
        "kernel": hashlib.sha256(kernels).hexdigest()[:12],
        "format": FORMAT,
    }
