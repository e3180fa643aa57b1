"""Self-speculative speech recognition as its paper measures it (arXiv:2603.11243): modes and thresholds over test sets.

A set at a setting is a unit of work: it is stored when it is done, and not done again.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

import numpy as np
import soundfile
import torch
from pydantic import BaseModel

from pcg.asr.embedded import Recogniser
from pcg.asr.self_speculative import PRESETS, Thresholds, transcribe
from pcg.audio import load_audio
from pcg.errors import AssetError, InputError, PCGError, first_line
from pcg.experiments.tables import Column, P, Table
from pcg.experiments.worker import context
from pcg.files import write_json
from pcg.metrics.estimate import between, resampled
from pcg.metrics.intelligibility import Errors, pooled, read_sentences, word_errors
from pcg.metrics.quality import JUDGE_RATE
from pcg.models.hub import content_digest

SECTIONS = ("everyday", "balanced")
NOISE_DB, LONGEST_SECONDS, REPEATS = 10.0, 30.0, 3
HEARD, NOISY, OTHER = "voices of the training", "with noise, 10 dB", "another synthesizer"
MODES = {"ar": "AR", "accurate": "high accuracy", "fast": "high RTFx"}
SWEPT_CTC, SWEPT_LM = (0.3, 0.7, 1.5, 3.0), (0.1, 0.2, 0.5)
# Figures 3 and 4: both steps, and either alone.
SWEEP = (
    *(Thresholds(ctc, lm) for ctc in SWEPT_CTC for lm in SWEPT_LM),
    *(Thresholds(ctc, None) for ctc in SWEPT_CTC),
    *(Thresholds(None, lm) for lm in SWEPT_LM),
)
# The averages of Table 1, English Open ASR: WER %, RTFx.
PAPER = {"ar": (5.75, 564), "accurate": (5.58, 548), "fast": (6.56, 2491)}
RUN = "python -m pcg experiment recognition"


@dataclass(frozen=True, eq=False)
class SpokenText:
    """Samples `[N]`, float32 at 16 kHz, and their text."""

    text: str
    samples: np.ndarray


@dataclass(frozen=True)
class SetResult:
    """A set at a setting. words: errors and length of each utterance; stages: which step accepted it ("ctc", "lm", "ar");
    milliseconds: of each pass over the set."""

    words: tuple[tuple[int, int], ...]
    stages: tuple[str, ...]
    milliseconds: tuple[float, ...]


class Study(BaseModel):
    """A study: who made it and where, seconds of speech by set, and results by set and setting."""

    format: Literal[1] = 1
    made: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    heard: dict[str, dict[str, SetResult]] = {}

    @classmethod
    def read(cls, path: Path) -> "Study":
        """Read what `study` wrote; raise AssetError for another file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise AssetError(f"The results in {path} are missing or damaged ({first_line(error)}).") from error


def spoken_sets(count: int, seed: int = 0) -> dict[str, list[SpokenText]]:
    """Return by name `count` evaluation sentences each, which no training has seen. Without the teachers of the embedded voice
    only espeak-ng speaks."""
    from pcg.training.teachers import speak_held_out

    written = read_sentences(*SECTIONS)
    if not 1 <= count <= len(written):
        raise InputError("count", count, f"a whole number from 1 to {len(written)}, the sentences that there are")
    texts = [written[i * len(written) // count] for i in range(count)]
    sets = {OTHER: [SpokenText(*pair) for pair in zip(texts, speak_held_out(texts, seed), strict=True)]}
    try:
        from pcg.training.corpus import SPEAKERS, recorded

        voices = list(SPEAKERS)
        heard = [SpokenText(text, recorded(voices[i % len(voices)], text, JUDGE_RATE)) for i, text in enumerate(texts)]
    except (ImportError, PCGError):  # the teachers of the voice are packages that only training installs
        return sets
    return {HEARD: heard, NOISY: noisy(heard, NOISE_DB, seed)} | sets


def recorded_set(folder: Path, count: int) -> list[SpokenText]:
    """Return up to `count` recordings below `folder` with their transcripts, at most LONGEST_SECONDS long."""
    from pcg.training.samples import find_recordings

    short = [each for each in find_recordings(folder) if soundfile.info(each.sound).duration <= LONGEST_SECONDS]
    if not short:
        allowed = f"a folder of recordings of at most {LONGEST_SECONDS:g} s with a .txt beside each"
        raise InputError("speech", str(folder), allowed)
    count = min(count, len(short))
    chosen = [short[i * len(short) // count] for i in range(count)]
    return [SpokenText(r.words.read_text(encoding="utf-8").strip(), load_audio(r.sound, JUDGE_RATE)) for r in chosen]


def identity(recogniser: Path, sets: Mapping[str, Sequence[SpokenText]]) -> str:
    """Return a digest of the recogniser's weights and of all sounds and texts."""
    digest = hashlib.sha256()
    for file in sorted(recogniser.rglob("*.safetensors")):
        digest.update(content_digest(file).encode())
    for name, spoken in sets.items():
        digest.update(name.encode() + b"".join(each.text.encode() + each.samples.tobytes() for each in spoken))
    return digest.hexdigest()[:16]


def noisy(spoken: Sequence[SpokenText], decibels: float, seed: int) -> list[SpokenText]:
    """Add white noise so many decibels below the mean power of each utterance."""
    rng, made = np.random.default_rng(seed), []
    for each in spoken:
        level = np.sqrt(np.square(each.samples).mean()) * 10 ** (-decibels / 20)
        made.append(SpokenText(each.text, (each.samples + level * rng.standard_normal(len(each.samples))).astype(np.float32)))
    return made


def setting_name(thresholds: Thresholds) -> str:
    """Return "ctc 0.7, lm 0.2", "ctc 0.7", "lm 0.2", or "AR"."""
    parts = [f"{name} {value:g}" for name, value in (("ctc", thresholds.ctc), ("lm", thresholds.lm)) if value is not None]
    return ", ".join(parts) or "AR"


AR = setting_name(PRESETS["ar"])


def study(
    recogniser: Recogniser,
    sets: Mapping[str, Sequence[SpokenText]],
    swept: str,
    path: Path,
    identity: str,
    announce: Callable[[str], None] = print,
) -> Study:
    """Run all `sets` in the modes of Table 1, and the set `swept` at the thresholds of Figures 3 and 4; keep the file `path`.

    Args:
        identity: of recogniser and sets; results of another one, or from another machine, are measured again.
    """
    made = context("cpu", "float32", torch.get_num_threads(), 1, {"recogniser": recogniser.name}) | {"identity": identity}
    before = Study.read(path) if path.is_file() else Study()
    same = all(before.made.get(key) == made[key] for key in made if key != "date")
    seconds = {name: sum(len(each.samples) for each in spoken) / JUDGE_RATE for name, spoken in sets.items()}
    results = Study(made=made, seconds=seconds, heard={name: before.heard.get(name, {}) if same else {} for name in sets})
    for name, spoken in sets.items():
        wanted = [PRESETS[mode] for mode in MODES] + (list(SWEEP) if name == swept else [])
        missing = {setting_name(each): each for each in wanted if setting_name(each) not in results.heard[name]}
        if missing:
            announce(f"{name}: {len(spoken)} utterances at {len(missing)} settings")
            results.heard[name] |= _measure(recogniser, spoken, {AR: PRESETS["ar"]} | missing)
            write_json(path, results.model_dump(mode="json"))
    return results


def _measure(recogniser: Recogniser, spoken: Sequence[SpokenText], settings: Mapping[str, Thresholds]) -> dict[str, SetResult]:
    """Run every setting in turns and in an order that changes; the first pass warms up and is not timed."""
    samples = [torch.from_numpy(each.samples) for each in spoken]
    texts = {at: transcribe(recogniser, samples, thresholds) for at, thresholds in settings.items()}
    spent: dict[str, list[float]] = {at: [] for at in settings}
    rng = random.Random(0)
    for _ in range(REPEATS):
        for at in rng.sample(list(settings), len(settings)):
            begun = perf_counter()
            transcribe(recogniser, samples, settings[at])
            spent[at].append(round(1e3 * (perf_counter() - begun), 1))
    results = {}
    for at, transcripts in texts.items():
        errors = [word_errors(each.text, t.text) for each, t in zip(spoken, transcripts, strict=True)]
        words = tuple((each.errors, each.length) for each in errors)
        results[at] = SetResult(words, tuple(t.stage for t in transcripts), tuple(spent[at]))
    return results


def recognition_tables(study: Study) -> list[Table]:
    """Return Table 1 with the paper's averages, and the sweep of each set that has one."""
    shares = [Column(title, 0, 100) for title in ("%C", "%L")]
    figures = (Column("n"), Column("WER %", 1, 100), Column("WER, points", 1, 100, signed=True), P, *shares,
               Column("RTFx"), Column("over AR", 2, suffix="x"))  # fmt: skip

    def cells(name: str, setting: str) -> tuple[object, ...]:
        at, ar = study.heard[name][setting], study.heard[name][AR]
        stages = [at.stages.count(stage) / len(at.stages) for stage in ("ctc", "lm")]
        rtfx, wer = 1e3 * study.seconds[name] / median(at.milliseconds), pooled([Errors(*words) for words in at.words])
        if setting == AR:
            return (len(at.words), wer, None, None, *stages, rtfx, None)
        both = np.concatenate([np.array(at.words, float), np.array(ar.words, float)], axis=1)
        total, draws = both.sum(0), resampled(both)
        less = between(total[0] / total[1] - total[2] / total[3], draws[:, 0] / draws[:, 1] - draws[:, 2] / draws[:, 3])
        return (len(at.words), wer, less, two_proportions(at, ar), *stages, rtfx, speed(name, setting))

    def speed(name: str, setting: str) -> float:
        """Return how many times as fast as AR."""
        return median(study.heard[name][AR].milliseconds) / median(study.heard[name][setting].milliseconds)

    rows = [(name, title, *cells(name, setting_name(PRESETS[mode]))) for name in study.heard for mode, title in MODES.items()]
    for mode, (rate, rtfx) in PAPER.items():
        theirs = (None, rate / 100, None, None, None, None, rtfx, None if mode == "ar" else rtfx / PAPER["ar"][1])
        rows.append(("the paper, average", MODES[mode], *theirs))
    note = (
        "Brackets: 95 % bootstrap interval over utterances. RTFx: seconds of speech in a second of work. %C, %L: accepted by "
        "the CTC gate, by the language model's one pass. p: two-proportion z-test against AR. The paper: a 1B model on an H100."
    )
    columns = (Column("set", words=True), Column("mode", words=True), *figures)
    tables = [Table("recognition", "Self-speculative recognition (CTC Table 1)", columns, tuple(rows), note, RUN)]
    for name, settings in study.heard.items():
        if len(settings) > len(MODES):
            swept = [(at, *cells(name, at)) for at in sorted(settings, key=lambda at: speed(name, at))]
            title = f"Thresholds and steps (CTC Figures 3 and 4): {name}"
            tables.append(Table("thresholds", title, (Column("setting", words=True), *figures), tuple(swept), note, RUN))
    return tables


def two_proportions(ours: SetResult, theirs: SetResult) -> float:
    """Return p of the two-sided two-proportion z-test on the word errors, the paper's test."""
    (e1, n1), (e2, n2) = (np.array(each.words, float).sum(0) for each in (ours, theirs))
    rate = (e1 + e2) / (n1 + n2)
    spread = sqrt(rate * (1 - rate) * (1 / n1 + 1 / n2)) if 0 < rate < 1 else 0.0
    return erfc(abs(e1 / n1 - e2 / n2) / spread / sqrt(2)) if spread else 1.0
