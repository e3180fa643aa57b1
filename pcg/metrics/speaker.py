"""Speaker similarity: the cosine of two utterances' speaker embeddings.

Numbers of different encoders are not comparable. By Resemblyzer two utterances of one voice have about .92, a male and a female
voice about .62.
"""

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pcg.errors import AssetError, InputError, PCGError, first_line
from pcg.metrics.recording import JUDGE_RATE, Sample, for_judges

if TYPE_CHECKING:  # torch and transformers are imported when this judge is loaded
    from torch import nn
    from transformers import Wav2Vec2FeatureExtractor, WavLMForXVector

CHECKPOINT = "microsoft/wavlm-base-plus-sv"
# The x-vector's convolutions see 15 frames of 20 ms at a time, and a deviation needs two such views.
SHORTEST = JUDGE_RATE // 2
_UNHEARD = ("objective.", "wavlm.masked_spec_embed")


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


class WavLM:
    """The x-vectors of Chen et al. (arXiv 2110.13900), a `SpeakerEncoder`.

    checkpoint: a name on the hub or a folder. Recordings are embedded one by one: the first layer's norm spans the whole
    recording, so padding would change the result.
    """

    def __init__(self, checkpoint: str = CHECKPOINT, device: str = "cpu") -> None:
        model, self._reader = _load(checkpoint)
        self.name = f"{Path(checkpoint).name} (x-vectors, weights {weights_digest(model)})"
        self._model = model.to(device)

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Return a unit vector `[xvector_output_dim]`, or zeros for silence; less than half a second of sound is repeated."""
        import torch

        heard = for_judges(samples, sample_rate)
        if not np.any(heard):
            return np.zeros(self._model.config.xvector_output_dim, np.float32)
        heard = np.tile(heard, -(-SHORTEST // len(heard)))
        inputs = self._reader(heard, sampling_rate=JUDGE_RATE, return_tensors="pt").input_values
        with torch.inference_mode():
            embedding = self._model(inputs.to(self._model.device)).embeddings[0]
        return torch.nn.functional.normalize(embedding, dim=0).cpu().numpy()


def speaker_encoder(name: str, device: str = "cpu") -> SpeakerEncoder:
    """Load an encoder: resemblyzer, wavlm (from the hub), or a folder that holds a WavLM."""
    if name == "resemblyzer":
        return Resemblyzer()
    if name != "wavlm" and not Path(name).is_dir():
        raise InputError("speaker judge", name, "resemblyzer, wavlm, or a folder that holds a WavLM")
    return WavLM(CHECKPOINT if name == "wavlm" else name, device)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Return the cosine of two embeddings as `SpeakerEncoder.embed` returns them."""
    return float(np.dot(left, right))


def _load(checkpoint: str) -> "tuple[WavLMForXVector, Wav2Vec2FeatureExtractor]":
    import torch
    from transformers import Wav2Vec2FeatureExtractor, WavLMForXVector

    try:
        # The judge's name holds a digest of the weights.
        reader = Wav2Vec2FeatureExtractor.from_pretrained(checkpoint)  # nosec B615 # numbers alone
        model, found = WavLMForXVector.from_pretrained(  # nosec B615 # safetensors, by digest
            checkpoint, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:
        raise AssetError(f"The speaker judge {checkpoint} is missing or damaged ({first_line(error)}).") from error
    # transformers fills missing weights with random numbers.
    if lacking := sorted(key for key in found["missing_keys"] if not key.startswith(_UNHEARD)):
        raise AssetError(f"The speaker judge {checkpoint} lacks {len(lacking)} of its weights ({lacking[0]} among them).")
    return model.eval(), reader


def weights_digest(model: "nn.Module") -> str:
    """Return a short digest of the weights of `model`."""
    import torch

    digest = hashlib.sha256()
    for key, weight in sorted(model.state_dict().items()):
        if not key.startswith(_UNHEARD):
            digest.update(weight.cpu().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:8]
