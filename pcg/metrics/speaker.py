"""Is it still the same speaker? The cosine between two utterances' speaker embeddings.

Other embeddings give other numbers: never compare with a table that another model made. Two utterances of one free
synthesizer's voice have about .92, those of two different male and female voices about .62.
"""

import warnings

import numpy as np

from pcg.errors import PCGError
from pcg.metrics.signal import JUDGE_RATE, for_judges


class Resemblyzer:
    """The GE2E speaker encoder, with the weights from inside the package, on the CPU."""

    def __init__(self) -> None:
        from importlib.metadata import version

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from resemblyzer import VoiceEncoder
        except ImportError as error:
            raise PCGError("Speakers cannot be compared: pip install --no-deps -r requirements-nodeps.txt first.") from error

        self.name = f"resemblyzer {version('resemblyzer')} (GE2E)"
        self._encoder = VoiceEncoder("cpu", verbose=False)

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """A unit vector `[256]`, or zeros where no voice is found, which makes such an utterance resemble nobody."""
        from resemblyzer import preprocess_wav

        heard = for_judges(samples, sample_rate)
        voiced = preprocess_wav(heard, JUDGE_RATE) if np.any(heard) else heard[:0]
        return self._encoder.embed_utterance(voiced) if len(voiced) else np.zeros(256, np.float32)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Cosine of two embeddings as `Resemblyzer.embed` returns them."""
    return float(np.dot(left, right))
