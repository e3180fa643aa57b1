"""Judges of sound: DNSMOS, a predicted opinion score, and the cosine of two utterances' speaker embeddings.

By Resemblyzer two utterances of one voice have about .92, a male and a female voice about .62.
"""

import warnings
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pcg.errors import PCGError
from pcg.metrics.recording import JUDGE_RATE, Sample, for_judges

WORST_MOS = 1.0


class DNSMOS:
    """DNSMOS P.835, overall quality from 1 to 5. It punishes noise and does not punish a robotic voice."""

    SEGMENT = int(9.01 * JUDGE_RATE)
    CALIBRATION = (-0.06766283, 1.11546468, 0.04602535)

    def __init__(self) -> None:
        from importlib.metadata import version
        from importlib.resources import files

        import onnxruntime

        self.name = f"DNSMOS P.835 overall (speechmos {version('speechmos')})"
        options = onnxruntime.SessionOptions()
        # Idle worker threads spin for a while and would slow down the next timing.
        options.intra_op_num_threads = 1
        model = str(files("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        return [self.score(sample.samples, sample.sample_rate) for sample in batch]

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        """Return the mean over windows of nine seconds, a second apart; a short utterance is repeated to fill them.

        The number is that of the package's own `run`, without its second model. Silence gets the bottom of the scale.
        """
        heard = for_judges(samples, sample_rate)
        if not np.any(heard):
            return WORST_MOS
        while len(heard) < self.SEGMENT:
            heard = np.tile(heard, 2)
        count = max(1, len(heard) // JUDGE_RATE - 9)
        windows = [heard[i * JUDGE_RATE : i * JUDGE_RATE + self.SEGMENT] for i in range(count)]
        raw = [self._session.run(None, {"input_1": window[None]})[0][0][2] for window in windows]
        return float(np.mean(np.polyval(self.CALIBRATION, np.array(raw, dtype=float))))


class SpeakerEncoder(Protocol):
    """`embed` turns `samples [N]` into a unit vector `[D]`, or zeros without a voice. `name` includes model and version."""

    @property
    def name(self) -> str: ...

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray: ...


class Similarity:
    """Cosine of a sample's embedding and its reference's, from -1 to 1; each reference of a batch is embedded once."""

    def __init__(self, encoder: SpeakerEncoder) -> None:
        self.name = f"cosine by {encoder.name}"
        self._encoder = encoder

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        references = [sample.reference_for(self.name) for sample in batch]
        speakers = {id(r): self._encoder.embed(r.samples, r.sample_rate) for r in {id(r): r for r in references}.values()}
        voices = [self._encoder.embed(sample.samples, sample.sample_rate) for sample in batch]
        return [cosine(voice, speakers[id(reference)]) for voice, reference in zip(voices, references, strict=True)]


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
        """Return a unit vector `[256]`, or zeros where no voice is found."""
        from resemblyzer import preprocess_wav

        heard = for_judges(samples, sample_rate)
        voiced = preprocess_wav(heard, JUDGE_RATE) if np.any(heard) else heard[:0]
        return self._encoder.embed_utterance(voiced) if len(voiced) else np.zeros(256, np.float32)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Return the cosine of two embeddings as `SpeakerEncoder.embed` returns them."""
    return float(np.dot(left, right))
