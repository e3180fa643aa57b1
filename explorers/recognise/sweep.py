"""Many recordings at several thresholds: how many errors each setting makes, and how fast it is. Knows nothing of gradio."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from explorers.recognise.actions import count_stages, name_of, read_sound, total_times
from pcg.asr.listening import Recognition, as_speech, cut, listen_to_all
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS, Stage, Thresholds
from pcg.errors import InputError
from pcg.experiments.recognition.study import SWEPT_CTC, SWEPT_LM
from pcg.metrics.estimate import Estimate
from pcg.metrics.intelligibility import comparable, pooled, word_errors

LONGEST_SWEEP_SECONDS = 1800
MOST_FILES = 50
AT_ONCE = 8
LARGEST_TRANSCRIPTS = 2**20
_AUDIO_NAME = re.compile(r"\.(wav|flac|ogg|oga|opus|mp3|aiff?|au|m4a)$", re.IGNORECASE)
# AR first, as the others may be compared with it; the other presets are in the grid.
SWEPT = (PRESETS["ar"], *(Thresholds(ctc, lm) for lm, ctc in product(SWEPT_LM, SWEPT_CTC)))


@dataclass(frozen=True)
class Point:
    """A finished setting. rate: errors by words over the files that have words, None if none has; stages: how many utterances
    each step accepted; seconds of sound and of work."""

    thresholds: Thresholds
    rate: Estimate | None
    stages: Mapping[Stage, int]
    seconds: float
    work_seconds: float

    @property
    def rtfx(self) -> float:
        return self.seconds / self.work_seconds

    @property
    def utterances(self) -> int:
        return sum(self.stages.values())

    def share(self, stage: Stage) -> float:
        """The share of utterances that `stage` accepted: the paper's %C and %L."""
        return self.stages[stage] / self.utterances

    def record(self) -> dict[str, object]:
        return {
            "setting": name_of(self.thresholds),
            "thresholds": {"ctc": self.thresholds.ctc, "lm": self.thresholds.lm},
            "rate": self.rate and {k: round(v, 6) for k, v in vars(self.rate).items()},
            "rtfx": round(self.rtfx, 2),
            "utterances": dict(self.stages),
        }


@dataclass(frozen=True)
class Sweep:
    """The progress of a sweep: its finished `points`, and `heard` of `files` files at the setting `now`, None at the end.

    measure: "WER" against transcripts, else "disagreement with AR". compared: files with a word to compare with, and their
    `words`, known once AR has run.
    """

    judge: str
    measure: str
    files: int
    seconds: float
    settings: int
    compared: int = 0
    words: int = 0
    points: tuple[Point, ...] = ()
    now: str | None = None
    heard: int = 0

    def record(self) -> dict[str, object]:
        """Ready for JSON."""
        figures = {name: getattr(self, name) for name in ("judge", "measure", "files", "compared", "words")}
        return figures | {"seconds": round(self.seconds, 2), "points": [point.record() for point in self.points]}


def read_transcripts(path: Path) -> dict[str, str]:
    """`name<TAB>text` a line, or a JSON object of texts by name; raise InputError if it is neither."""
    allowed = "lines of a file's name, a tab and its text, or a JSON object of texts by name"
    try:
        if (size := path.stat().st_size) > LARGEST_TRANSCRIPTS:
            raise InputError("transcript file", f"{size:,} bytes", f"at most {LARGEST_TRANSCRIPTS:,} bytes")
        content = path.read_text(encoding="utf-8-sig")
        pairs = json.loads(content).items() if content.lstrip().startswith("{") else _lines(content)
        texts = {_key(name): text for name, text in pairs}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("transcript file", path.name, allowed) from error
    if not texts or not all(isinstance(text, str) for text in texts.values()):
        raise InputError("transcript file", path.name, allowed)
    return texts


@dataclass(frozen=True, eq=False)
class Recordings:
    """The input of a sweep: the `samples [N]` of every file, and its text, if there are transcripts."""

    samples: Sequence[np.ndarray]
    sample_rate: int
    texts: Sequence[str] | None = None

    @property
    def seconds(self) -> float:
        return sum(map(len, self.samples)) / self.sample_rate


def read_recordings(paths: Sequence[Path], transcripts: Path | None, sample_rate: int) -> Recordings:
    """Read all files, or refuse in one sentence that names what is wrong with one of them."""
    if not 1 <= len(paths) <= MOST_FILES:
        raise InputError("number of files", len(paths), f"1 to {MOST_FILES}")
    texts = _texts_of(paths, read_transcripts(transcripts)) if transcripts else None
    samples: list[np.ndarray] = []
    for path in paths:
        samples.append(read_sound(path, sample_rate))
        if sum(map(len, samples)) > LONGEST_SWEEP_SECONDS * sample_rate:
            raise InputError("sound of all files", "longer", f"at most {LONGEST_SWEEP_SECONDS // 60} minutes")
    if not any(cut(as_speech(s, sample_rate, sample_rate), sample_rate) for s in samples):
        raise InputError("sound of all files", "silence", "speech")
    return Recordings(samples, sample_rate, texts)


def sweep(recogniser: Recogniser, recordings: Recordings, settings: Sequence[Thresholds] = SWEPT) -> Iterator[Sweep]:
    """Hear all recordings at every setting, of which the first is AR; yield the progress after every few files.

    Closing the generator stops the work.
    """
    measure = "WER" if recordings.texts else "disagreement with AR"
    state = Sweep(recogniser.name, measure, len(recordings.samples), recordings.seconds, len(settings))
    meant = recordings.texts
    for setting in settings:
        found: list[Recognition] = []
        for first in range(0, state.files, AT_ONCE):
            yield replace(state, now=name_of(setting), heard=first)
            group = recordings.samples[first : first + AT_ONCE]
            found += listen_to_all(recogniser, group, recordings.sample_rate, setting)
        meant = meant or [f.text for f in found]
        words = [len(comparable(text).split()) for text in meant]
        points = (*state.points, _point(setting, found, meant, state.seconds))
        state = replace(state, compared=sum(map(bool, words)), words=sum(words), points=points)
    yield state


def _point(thresholds: Thresholds, found: Sequence[Recognition], meant: Sequence[str], seconds: float) -> Point:
    transcripts = [part for recognition in found for part in recognition.parts]
    errors = [word_errors(text, f.text) for text, f in zip(meant, found, strict=True) if comparable(text)]
    rate = pooled(errors) if errors else None
    return Point(thresholds, rate, count_stages(transcripts), seconds, total_times(transcripts).total / 1000)


def _texts_of(paths: Sequence[Path], texts: Mapping[str, str]) -> list[str]:
    keys = [_key(path.name) for path in paths]
    for path, key in zip(paths, keys, strict=True):
        if keys.count(key) > 1:
            raise InputError("file", path.name, "one with a unique name, as transcripts are found by name")
        if not comparable(texts.get(key, "")):
            raise InputError("file", path.name, "one that the transcript file has some words for")
    return [texts[key] for key in keys]


def _lines(content: str) -> list[tuple[str, str]]:
    lines = [line.split("\t") for line in content.splitlines() if line.strip()]
    if any(len(line) != 2 for line in lines):
        raise ValueError("a line without its tab")
    return [(name, text) for name, text in lines]


def _key(name: str) -> str:
    """A file by its name: without folder, kind and the characters that an upload loses."""
    return re.sub(r"[^\w.-]", "", _AUDIO_NAME.sub("", name.strip().replace("\\", "/").rpartition("/")[2])).casefold()
