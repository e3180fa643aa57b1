"""NeuCodec (Julian et al., arXiv 2509.09550): X-codec2's architecture and code table; it hears 16 kHz and speaks 24 kHz.

It is read by transformers' `NeuCodecModel`, and checked as X-codec2 is.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import NeuCodecModel

from pcg.codec.xcodec2 import XCodec2, load_checked

CHECKPOINT = "neuphonic/neucodec"


class NeuCodec(XCodec2):
    """The `Codec` at the rate at which it speaks: what it is to encode is given at 24 kHz, too, and brought down here."""

    @property
    def sample_rate(self) -> int:
        return self._model.config.output_sampling_rate

    @property
    def encoder_rate(self) -> int:
        return self._model.config.input_sampling_rate

    def _pad(self, wave: Tensor) -> Tensor:
        """Whole hops at the encoder's rate, and one of silence: its filter banks end one code before its samples do."""
        import librosa

        whole = nn.functional.pad(wave, (0, -len(wave) % self.hop)).numpy()
        heard = librosa.resample(whole, orig_sr=self.sample_rate, target_sr=self.encoder_rate)
        return nn.functional.pad(torch.from_numpy(heard.astype(np.float32)), (0, self._model.config.encoder_hop_length))

    def _features(self, padded: Tensor) -> Tensor:
        """Of the samples themselves, without the half hop around them that X-codec2 has."""
        return self._extract(padded)


def load_neucodec(source: str | Path = CHECKPOINT, device: str = "cpu") -> NeuCodec:
    """Load NeuCodec from a folder or from the hub, as `pcg.codec.xcodec2.load_xcodec2` does."""
    return NeuCodec(load_checked(NeuCodecModel, source, device))
