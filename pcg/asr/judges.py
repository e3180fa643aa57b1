"""Judges by name: who writes down what synthesized speech says. Each is loaded when it is first asked for.

A rate of one judge says little, and nothing without the judge's name: some forgive what others do not.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from pcg.asr.embedded import EMBEDDED, load_recogniser
from pcg.asr.lexicon import Lexicon, load_lexicon
from pcg.asr.listening import as_speech, listen_to_all
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS
from pcg.asr.word_search import Way
from pcg.errors import AssetError, InputError, first_line
from pcg.metrics.intelligibility import Judge, PocketSphinx
from pcg.metrics.wavlm import weights_digest

HUBERT = "facebook/hubert-large-ls960-ft"
WHISPER = "openai/whisper-large-v3"
RATE = 16_000
AT_ONCE = 8
WORDS = "words"
MODES = (*PRESETS, WORDS)


class ListeningJudge:
    """A `Recogniser`, and how it writes down what it hears."""

    def __init__(self, recogniser: Recogniser, way: Way, mode: str) -> None:
        self._recogniser, self._way = recogniser, way
        self.name = f"{recogniser.name}, {way.name if isinstance(way, Lexicon) else mode}"

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        return [r.text for r in listen_to_all(self._recogniser, recordings, sample_rate, self._way)]


class CTCJudge:
    """A CTC checkpoint of transformers (HuBERT, wav2vec 2.0), read greedily."""

    def __init__(self, checkpoint: str, device: str) -> None:
        from transformers import AutoModelForCTC, Wav2Vec2Processor

        self._model = _load(AutoModelForCTC.from_pretrained, checkpoint, use_safetensors=True).to(device)
        self.name = f"{Path(checkpoint).name} (weights {weights_digest(self._model)}), greedy CTC"
        self._processor = _load(Wav2Vec2Processor.from_pretrained, checkpoint)

    @torch.inference_mode()
    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        return [self._hear(as_speech(r, sample_rate, RATE)) for r in recordings]

    def _hear(self, speech: np.ndarray) -> str:
        # Padding changes what checkpoints with a group norm hear, so recordings go one by one.
        if not _sounds(speech):
            return ""
        inputs = self._processor(speech, sampling_rate=RATE, return_tensors="pt").to(self._model.device)
        path = self._model(inputs.input_values).logits.argmax(-1)
        return self._processor.batch_decode(path)[0].strip().lower()


class WhisperJudge:
    """A Whisper checkpoint, greedy, told that it hears English; it hears 30 seconds at most."""

    def __init__(self, checkpoint: str, device: str) -> None:
        from transformers import WhisperForConditionalGeneration, WhisperProcessor

        self._model = _load(WhisperForConditionalGeneration.from_pretrained, checkpoint, use_safetensors=True).to(device)
        self.name = f"{Path(checkpoint).name} (weights {weights_digest(self._model)}), greedy"
        self._processor = _load(WhisperProcessor.from_pretrained, checkpoint)

    @torch.inference_mode()
    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        speech = [as_speech(r, sample_rate, RATE) for r in recordings]
        if long := [s for s in speech if len(s) > 30 * RATE]:
            raise InputError("recording", f"{len(long[0]) / RATE:.0f} seconds", "at most 30 seconds for Whisper")
        texts = [""] * len(speech)
        # It invents words for silence.
        audible = [i for i, s in enumerate(speech) if _sounds(s)]
        for first in range(0, len(audible), AT_ONCE):
            rows = audible[first : first + AT_ONCE]
            for row, text in zip(rows, self._hear([speech[i] for i in rows]), strict=True):
                texts[row] = text
        return texts

    def _hear(self, speech: Sequence[np.ndarray]) -> list[str]:
        inputs = self._processor(list(speech), sampling_rate=RATE, return_tensors="pt").to(self._model.device)
        multilingual = getattr(self._model.generation_config, "is_multilingual", False)
        forced = {"language": "en", "task": "transcribe"} if multilingual else {}
        written = self._model.generate(inputs.input_features, do_sample=False, num_beams=1, **forced)
        return [text.strip() for text in self._processor.batch_decode(written, skip_special_tokens=True)]


def load_judge(name: str, device: str = "cpu", mode: str | None = None, checkpoint: str | None = None) -> Judge:
    """name: one of JUDGES. mode: for "embedded" one of MODES (by default "words"), for "granite" a preset of self-speculative
    decoding (by default "accurate"). checkpoint: another folder or name on the hub than the judge's own."""
    if name not in JUDGES:
        raise InputError("judge", name, "one of " + ", ".join(JUDGES))
    allowed = MODES if name == "embedded" else tuple(PRESETS)
    if mode is not None and mode not in allowed:
        raise InputError("mode", mode, "one of " + ", ".join(allowed))
    return JUDGES[name](device, mode, checkpoint)


def way_of(mode: str) -> Way:
    """How the embedded recogniser writes in one of MODES."""
    if mode not in MODES:
        raise InputError("mode", mode, "one of " + ", ".join(MODES))
    return load_lexicon() if mode == WORDS else PRESETS[mode]


JUDGES: dict[str, Callable[[str, str | None, str | None], Judge]] = {
    "embedded": lambda _, mode, at: _embedded(Path(at) if at else EMBEDDED, mode or WORDS),
    "granite": lambda device, mode, at: _granite(at, device, mode or "accurate"),
    "pocketsphinx": lambda *_: PocketSphinx(),
    "hubert": lambda device, _, at: CTCJudge(at or HUBERT, device),
    "whisper": lambda device, _, at: WhisperJudge(at or WHISPER, device),
}


def _embedded(folder: Path, mode: str) -> Judge:
    return ListeningJudge(load_recogniser(folder), way_of(mode), mode)


def _granite(checkpoint: str | None, device: str, mode: str) -> Judge:
    from pcg.asr.granite import CHECKPOINT, load_granite  # transformers takes seconds to import

    return ListeningJudge(load_granite(checkpoint or CHECKPOINT, device), PRESETS[mode], mode)


def _load(load: Callable[..., object], checkpoint: str, **options: bool):  # type: ignore[no-untyped-def]
    try:
        return load(checkpoint, **options)
    except Exception as error:
        raise AssetError(f"The judge {checkpoint} is missing or damaged ({first_line(error)}).") from error


def _sounds(speech: np.ndarray) -> bool:
    return len(speech) >= 0.1 * RATE and float(np.abs(speech).max()) > 1e-3
