"""WavLM as a judge of speakers, from the hub or from a folder of the same format."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pcg.errors import AssetError, first_line
from pcg.metrics.recording import JUDGE_RATE, for_judges

if TYPE_CHECKING:  # torch and transformers wait until somebody asks for this judge
    from torch import nn
    from transformers import Wav2Vec2FeatureExtractor, WavLMForXVector

CHECKPOINT = "microsoft/wavlm-base-plus-sv"
# The x-vector's convolutions see 15 frames of 20 ms at a time, and a deviation needs two such views.
SHORTEST = JUDGE_RATE // 2
_UNHEARD = ("objective.", "wavlm.masked_spec_embed")


class WavLM:
    """The x-vectors of Chen et al. (arXiv 2110.13900), a `SpeakerEncoder`.

    checkpoint: a name on the hub or a folder. Recordings go through it one by one: its first layer's norm spans the whole
    recording, so that padding would make the verdict depend on the batch.
    """

    def __init__(self, checkpoint: str = CHECKPOINT, device: str = "cpu") -> None:
        model, self._reader = _load(checkpoint)
        self.name = f"{Path(checkpoint).name} (x-vectors, weights {weights_digest(model)})"
        self._model = model.to(device)

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """A unit vector `[xvector_output_dim]`, or zeros for silence; what is shorter than half a second is repeated."""
        import torch

        heard = for_judges(samples, sample_rate)
        if not np.any(heard):
            return np.zeros(self._model.config.xvector_output_dim, np.float32)
        heard = np.tile(heard, -(-SHORTEST // len(heard)))
        inputs = self._reader(heard, sampling_rate=JUDGE_RATE, return_tensors="pt").input_values
        with torch.inference_mode():
            embedding = self._model(inputs.to(self._model.device)).embeddings[0]
        return torch.nn.functional.normalize(embedding, dim=0).cpu().numpy()


def _load(checkpoint: str) -> "tuple[WavLMForXVector, Wav2Vec2FeatureExtractor]":
    import torch
    from transformers import Wav2Vec2FeatureExtractor, WavLMForXVector

    try:
        # What was read is known afterwards: a digest of the weights is in the judge's name.
        reader = Wav2Vec2FeatureExtractor.from_pretrained(checkpoint)  # nosec B615 # numbers alone
        model, found = WavLMForXVector.from_pretrained(  # nosec B615 # safetensors, by digest
            checkpoint, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:
        raise AssetError(f"The speaker judge {checkpoint} is missing or damaged ({first_line(error)}).") from error
    # transformers fills what it does not find with random numbers, and such a judge would answer all the same.
    if lacking := sorted(key for key in found["missing_keys"] if not key.startswith(_UNHEARD)):
        raise AssetError(f"The speaker judge {checkpoint} lacks {len(lacking)} of its weights ({lacking[0]} among them).")
    return model.eval(), reader


def weights_digest(model: "nn.Module") -> str:
    """A short name for the weights of `model`, so that a judge whose weights change is another judge."""
    import torch

    digest = hashlib.sha256()
    for key, weight in sorted(model.state_dict().items()):
        if not key.startswith(_UNHEARD):
            digest.update(weight.cpu().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:8]
