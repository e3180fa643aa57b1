"""The recogniser at every setting of its thresholds, over test sets: what it wrote of each utterance, and how long it took.

A set at a setting is a unit of work: it is stored when it is done, and not done again.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch

from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS, Thresholds, transcribe
from pcg.errors import AssetError, first_line
from pcg.experiments.context import context
from pcg.experiments.recognition.speech import SpokenText
from pcg.files import write_json
from pcg.metrics.intelligibility import word_errors
from pcg.metrics.recording import JUDGE_RATE

FORMAT = 1
SWEPT_CTC, SWEPT_LM = (0.3, 0.7, 1.5, 3.0), (0.1, 0.2, 0.5)
REPEATS = 3


@dataclass(frozen=True)
class Heard:
    """A set at one setting. words: errors and length of every utterance; stages: who accepted its text ("ctc", "lm", "ar");
    milliseconds: of each pass over the whole set."""

    words: tuple[tuple[int, int], ...]
    stages: tuple[str, ...]
    milliseconds: tuple[float, ...]


@dataclass(frozen=True)
class RecognitionStudy:
    """What was heard, by set and by setting (`setting_name`). seconds: of the speech in each set; made: where and by whom."""

    heard: Mapping[str, Mapping[str, Heard]]
    seconds: Mapping[str, float]
    made: Mapping[str, object]

    def as_dict(self) -> dict[str, object]:
        heard = {name: {at: asdict(of) for at, of in by_setting.items()} for name, by_setting in self.heard.items()}
        return {"format": FORMAT, "made": dict(self.made), "seconds": dict(self.seconds), "heard": heard}

    @classmethod
    def read(cls, path: Path) -> "RecognitionStudy":
        """Raises AssetError for a file that is no study."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] != FORMAT:
                raise ValueError(f"format {values['format']!r} is not {FORMAT}")
            heard = {
                name: {
                    at: Heard(tuple(map(tuple, of["words"])), tuple(of["stages"]), tuple(of["milliseconds"]))
                    for at, of in by_setting.items()
                }
                for name, by_setting in values["heard"].items()
            }
            return cls(heard, values["seconds"], values["made"])
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise AssetError(f"The results in {path} are missing or damaged ({first_line(error)}).") from error


def setting_name(thresholds: Thresholds) -> str:
    """As the tables call it: "ctc 0.7, lm 0.2", "ctc 0.7", "lm 0.2", or "AR"."""
    parts = [f"{name} {value:g}" for name, value in (("ctc", thresholds.ctc), ("lm", thresholds.lm)) if value is not None]
    return ", ".join(parts) or "AR"


AR, ACCURATE, FAST = (setting_name(PRESETS[name]) for name in ("ar", "accurate", "fast"))
TABLE = tuple(PRESETS[name] for name in ("ar", "accurate", "fast"))
# Figures 3 and 4: both steps, and either alone.
SWEEP = (
    *TABLE,
    *(Thresholds(ctc, lm) for ctc in SWEPT_CTC for lm in SWEPT_LM),
    *(Thresholds(ctc, None) for ctc in SWEPT_CTC),
    *(Thresholds(None, lm) for lm in SWEPT_LM),
)


def study(
    recogniser: Recogniser,
    sets: Mapping[str, Sequence[SpokenText]],
    swept: str,
    path: Path,
    identity: str,
    device: str = "cpu",
    announce: Callable[[str], None] = print,
    repeats: int = REPEATS,
) -> RecognitionStudy:
    """All `sets` at the settings of Table 1, and the set `swept` at those of Figures 3 and 4, too; kept in the file `path`.

    identity: of recogniser and sets; what `path` holds under another one, or from another machine, is done again.
    """
    made = context(device, "float32", torch.get_num_threads(), 1, {"recogniser": recogniser.name}) | {"identity": identity}
    before = RecognitionStudy.read(path) if path.is_file() else None
    same = before is not None and all(before.made.get(key) == made[key] for key in made if key != "date")
    heard = {name: dict(before.heard.get(name, {})) if same else {} for name in sets}
    seconds = {name: sum(len(each.samples) for each in spoken) / JUDGE_RATE for name, spoken in sets.items()}
    for name, spoken in sets.items():
        settings = {setting_name(each): each for each in (SWEEP if name == swept else TABLE)}
        missing = {at: each for at, each in settings.items() if at not in heard[name]}
        if missing:
            announce(f"{name}: {len(spoken)} utterances at {len(missing)} settings")
            # AR is in every comparison of times, so it is timed again beside the others.
            heard[name] |= _hear(recogniser, spoken, {AR: settings[AR]} | missing, repeats)
            write_json(path, RecognitionStudy(heard, seconds, made).as_dict())
    return RecognitionStudy(heard, seconds, made)


def _hear(
    recogniser: Recogniser, spoken: Sequence[SpokenText], settings: Mapping[str, Thresholds], repeats: int
) -> dict[str, Heard]:
    """Every setting `repeats` times, in turns and in an order that changes; the first pass warms up and is not timed."""
    samples = [torch.from_numpy(each.samples) for each in spoken]
    found = {at: transcribe(recogniser, samples, thresholds) for at, thresholds in settings.items()}
    spent: dict[str, list[float]] = {at: [] for at in settings}
    rng = random.Random(0)
    for _ in range(repeats):
        for at in rng.sample(list(settings), len(settings)):
            begun = perf_counter()
            transcribe(recogniser, samples, settings[at])
            spent[at].append(round(1e3 * (perf_counter() - begun), 1))
    heard = {}
    for at, transcripts in found.items():
        errors = [word_errors(each.text, t.text) for each, t in zip(spoken, transcripts, strict=True)]
        words = tuple((each.errors, each.length) for each in errors)
        heard[at] = Heard(words, tuple(t.stage for t in transcripts), tuple(spent[at]))
    return heard
