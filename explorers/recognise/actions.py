"""What the Recognise panel does: the transcript of one sound and its alignment. Knows nothing of gradio."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import isfinite
from operator import eq
from pathlib import Path

import numpy as np

from explorers.session import ShownTake
from pcg.asr.listening import as_speech, cut, listen
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS, Stage, Thresholds, Times, Transcript
from pcg.audio import load_audio
from pcg.errors import InputError, PCGError
from pcg.metrics.intelligibility import Errors, comparable
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS

# Those of self-speculative decoding, the cheapest first.
STAGES: tuple[Stage, ...] = ("ctc", "lm", "ar")
PRESET_NAMES = {"accurate": "high accuracy", "fast": "high RTFx", "ar": "AR"}
HIGHEST_CTC, HIGHEST_LM = 4.0, 1.0
LONGEST_SECONDS = 600
NO_SOUND = "There is no sound to transcribe: upload or record one, or use the take in hand."
NO_TAKE = "There is no take yet. Generate one under Listen to transcribe it here."


def thresholds_of(tau_ctc: float, tau_slm: float) -> Thresholds:
    """What the two sliders ask for. No frame is below 0 nats and no likelihood above 1: there, a step is left out."""
    for name, value, high in (("tau_ctc", tau_ctc, HIGHEST_CTC), ("tau_slm", tau_slm, HIGHEST_LM)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not (isfinite(value) and 0 <= value <= high):
            raise InputError(name, value, f"a number from 0 to {high:g}")
    return Thresholds(float(tau_ctc) or None, float(tau_slm) if tau_slm < HIGHEST_LM else None)


def sliders_of(preset: str) -> tuple[float, float]:
    """Where the sliders stand for one of PRESETS: `thresholds_of`, backwards."""
    if preset not in PRESETS:
        raise InputError("preset", preset, "one of " + ", ".join(PRESETS))
    wanted = PRESETS[preset]
    return wanted.ctc or 0.0, HIGHEST_LM if wanted.lm is None else wanted.lm


def preset_of(thresholds: Thresholds) -> str | None:
    """The name of a preset with these thresholds, if there is one."""
    return next((name for name, preset in PRESETS.items() if preset == thresholds), None)


def name_of(thresholds: Thresholds) -> str:
    """A preset by its name, others by their numbers."""
    preset = preset_of(thresholds)
    return (
        PRESET_NAMES[preset] if preset else f"τ {', '.join('–' if t is None else f'{t:g}' for t in vars(thresholds).values())}"
    )


@dataclass(frozen=True)
class Word:
    """A place of an alignment: what was `meant` and what was `heard`, "" where there is none. kind: "equal", "substitute",
    "insert" or "delete"."""

    kind: str
    meant: str
    heard: str


@dataclass(frozen=True)
class Alignment:
    """A hypothesis beside its reference, word by word, both as `pcg.metrics.intelligibility.comparable` writes them."""

    words: tuple[Word, ...]

    def count(self, kind: str) -> int:
        return sum(word.kind == kind for word in self.words)

    @property
    def errors(self) -> Errors:
        return Errors(len(self.words) - self.count("equal"), len(self.words) - self.count("insert"))


def align(reference: str, hypothesis: str) -> Alignment:
    """Align with the fewest errors; raise InputError if `reference` holds no word, or is longer than any text."""
    import jiwer

    if len(reference) > MAX_CHARACTERS:
        raise InputError("reference", f"{len(reference):,} characters", f"at most {MAX_CHARACTERS:,} characters")
    meant, heard = comparable(reference), comparable(hypothesis)
    if not meant:
        raise InputError("reference", reference, "a text with at least one word")
    found = jiwer.process_words(meant, heard)
    words = []
    for chunk in found.alignments[0]:
        left = found.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
        right = found.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
        nothing = [""] * max(len(left), len(right))
        words += [Word(chunk.type, *pair) for pair in zip(left or nothing, right or nothing, strict=True)]
    return Alignment(tuple(words))


@dataclass(frozen=True)
class TranscriptPart:
    """An utterance of a recording, from `begin` to `end` in seconds. refused: the first token that the language model did not
    verify, and its likelihood."""

    transcript: Transcript
    begin: float
    end: float
    refused: tuple[str, float] | None = None

    @property
    def accepted(self) -> str:
        """The front of the text that is the CTC head's own."""
        own = self.transcript
        if own.stage != "ar":
            return own.text
        # A token may end within a character, or write another space than its neighbours do.
        return own.text[: sum(1 for _ in takewhile(bool, map(eq, own.text, own.accepted_text)))]

    @property
    def rewritten(self) -> str:
        """The rest of the text, which the language model wrote."""
        return self.transcript.text[len(self.accepted) :]

    def record(self) -> dict[str, object]:
        own = self.transcript
        return {
            "begin": round(self.begin, 3),
            "end": round(self.end, 3),
            "stage": own.stage,
            "text": own.text,
            "accepted_text": self.accepted,
            "draft": own.draft,
            "entropies": [round(nats, 4) for nats in own.entropies.tolist()],
        }


@dataclass(frozen=True, eq=False)
class RecognisedSound:
    """The transcript by `judge` of one sound. speech `[N]` at `sample_rate`; parts: its utterances, none in silence; alignment:
    with the reference, if there was one."""

    judge: str
    thresholds: Thresholds
    speech: np.ndarray
    sample_rate: int
    text: str
    parts: tuple[TranscriptPart, ...]
    alignment: Alignment | None = None

    @property
    def seconds(self) -> float:
        return len(self.speech) / self.sample_rate

    @property
    def times(self) -> Times:
        return total_times([part.transcript for part in self.parts])

    @property
    def rtfx(self) -> float | None:
        """Seconds of sound per second of work; None without speech."""
        return 1000 * self.seconds / self.times.total if self.parts else None

    @property
    def stages(self) -> dict[Stage, int]:
        """How many parts each step accepted."""
        return count_stages([part.transcript for part in self.parts])

    def record(self) -> dict[str, object]:
        """Ready for JSON. stage: the last step that any part needed; times in milliseconds."""
        needed = [stage for stage in STAGES if self.stages[stage]]
        times = self.times
        record = {
            "judge": self.judge,
            "thresholds": {"ctc": self.thresholds.ctc, "lm": self.thresholds.lm},
            "text": self.text,
            "stage": needed[-1] if needed else None,
            "accepted_text": " ".join(part.accepted for part in self.parts if part.accepted),
            "seconds": round(self.seconds, 3),
            "rtfx": self.rtfx and round(self.rtfx, 2),
            "times": {name: round(value, 3) for name, value in {**vars(times), "total": times.total}.items()},
            "wer": None,
            "parts": [part.record() for part in self.parts],
        }
        if self.alignment is None:
            return record
        kinds = {name: self.alignment.count(name) for name in ("equal", "substitute", "insert", "delete")}
        return record | {"wer": round(self.alignment.errors.rate, 6), "words": kinds}


def hear(
    recogniser: Recogniser, samples: np.ndarray, sample_rate: int, thresholds: Thresholds, reference: str = ""
) -> RecognisedSound:
    """Transcribe one sound, and count the errors if there is a reference."""
    rate = recogniser.sample_rate
    speech = as_speech(samples, sample_rate, rate)
    found = listen(recogniser, speech, rate, thresholds)
    parts = tuple(
        TranscriptPart(transcript, place.start / rate, place.stop / rate, _refused(recogniser, transcript))
        for transcript, place in zip(found.parts, cut(speech, rate), strict=True)
    )
    alignment = align(reference, found.text) if reference.strip() else None
    return RecognisedSound(recogniser.name, thresholds, speech, rate, found.text, parts, alignment)


def read_sound(path: Path, sample_rate: int) -> np.ndarray:
    """A file as mono `[N]` at `sample_rate`; what is too long for the page is refused, not cut."""
    samples = load_audio(path, sample_rate, LONGEST_SECONDS + 1)
    if len(samples) > LONGEST_SECONDS * sample_rate:
        raise InputError("recording", path.name, f"at most {LONGEST_SECONDS // 60} minutes long")
    return samples


@dataclass(frozen=True, eq=False)
class Spoken:
    """A take as it is heard: `samples [N]`."""

    text: str
    method: str
    samples: np.ndarray
    sample_rate: int
    voice: str


def take_again(synthesizer: Synthesizer, shown: ShownTake | None) -> Spoken:
    """What a take sounds like, with its pauses; one whose sound was not kept is decoded again, by whoever spoke it. Raises
    PCGError without any."""
    if shown is None or not shown.reading.tokens:
        raise PCGError(NO_TAKE)
    reading, voice = shown.reading, synthesizer.voice
    if shown.packed and shown.sound and shown.sound.is_file():
        samples = shown.take().audio
    else:
        samples = synthesizer.decode(list(reading.tokens), shown.speaker(voice.references))
    return Spoken(reading.text, reading.method, samples, voice.codec.sample_rate, reading.voice)


def warmed(load: Callable[[], Recogniser], synthesizer: Synthesizer) -> Recogniser:
    """Load, and transcribe a voice in all three steps: the first calls of a process are slow, and would distort the times."""
    recogniser, speaker = load(), next(iter(synthesizer.voice.references.values()))
    samples = synthesizer.decode(speaker.codes.tolist(), speaker)
    listen(recogniser, samples, synthesizer.voice.codec.sample_rate, Thresholds(0.0, 1.0))
    return recogniser


def count_stages(transcripts: Sequence[Transcript]) -> dict[Stage, int]:
    counts = Counter(transcript.stage for transcript in transcripts)
    return {stage: counts[stage] for stage in STAGES}


def total_times(transcripts: Sequence[Transcript]) -> Times:
    return Times(*(sum(getattr(t.times, name) for t in transcripts) for name in vars(Times())))


def _refused(recogniser: Recogniser, transcript: Transcript) -> tuple[str, float] | None:
    at = transcript.accepted
    if transcript.stage != "ar" or at >= len(transcript.likelihoods):
        return None
    return recogniser.text(transcript.hypothesis[at : at + 1]), float(transcript.likelihoods[at])
