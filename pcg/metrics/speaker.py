"""Is it still the same speaker? The cosine between two utterances' speaker embeddings.

Other embeddings give other numbers: never compare with a table that another model made. Two utterances of one free
synthesizer's voice have about .92 by Resemblyzer, those of two different male and female voices about .62.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from pcg.errors import InputError, PCGError
from pcg.metrics.metric import Sample
from pcg.metrics.recording import JUDGE_RATE, for_judges


class SpeakerEncoder(Protocol):
    """`embed` turns `samples [N]` into a unit vector `[D]`, or into zeros where there is no voice, so that such an utterance
    resembles nobody. `name` says who compares, model and version included."""

    @property
    def name(self) -> str: ...

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray: ...


class Similarity:
    """Cosine of a sample's embedding and its reference's, from -1 to 1; each reference of a batch is embedded once."""

    key = "sim"
    higher_is_better = True

    def __init__(self, encoder: SpeakerEncoder) -> None:
        self.name = f"cosine by {encoder.name}"
        self._encoder = encoder

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        references = [sample.reference_for(self.key) for sample in batch]
        prints = [reference.fingerprint for reference in references]
        distinct = dict(zip(prints, references, strict=True))
        speakers = {f: self._encoder.embed(r.samples, r.sample_rate) for f, r in distinct.items()}
        voices = [self._encoder.embed(sample.samples, sample.sample_rate) for sample in batch]
        return [cosine(voice, speakers[f]) for voice, f in zip(voices, prints, strict=True)]


class Resemblyzer:
    """The GE2E speaker encoder, with the weights from inside the package, on the CPU."""

    def __init__(self) -> None:
        from importlib.metadata import version

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from resemblyzer import VoiceEncoder
        except ImportError as error:
            raise PCGError("Speakers cannot be compared: pip install --no-deps resemblyzer==0.1.4 first.") from error

        self.name = f"resemblyzer {version('resemblyzer')} (GE2E)"
        self._encoder = VoiceEncoder("cpu", verbose=False)

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """A unit vector `[256]`, or zeros where no voice is found."""
        from resemblyzer import preprocess_wav

        heard = for_judges(samples, sample_rate)
        voiced = preprocess_wav(heard, JUDGE_RATE) if np.any(heard) else heard[:0]
        return self._encoder.embed_utterance(voiced) if len(voiced) else np.zeros(256, np.float32)


def speaker_encoder(name: str, device: str = "cpu") -> SpeakerEncoder:
    """Resemblyzer by its name; WavLM by `wavlm`, which is fetched from the hub, or by the folder that holds it."""
    if name == "resemblyzer":
        return Resemblyzer()
    if name != "wavlm" and not Path(name).is_dir():
        raise InputError("speaker judge", name, "resemblyzer, wavlm, or a folder that holds a WavLM")
    from pcg.metrics.wavlm import CHECKPOINT, WavLM

    return WavLM(CHECKPOINT if name == "wavlm" else name, device)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Cosine of two embeddings as `SpeakerEncoder.embed` returns them."""
    return float(np.dot(left, right))
