"""NeuCodec hears what its own feature extractor hears."""

import librosa
import torch
from tiny_xcodec2 import save_tiny_neucodec
from transformers import NeuCodecModel, SeamlessM4TFeatureExtractor

from pcg.codec.hub import load_neucodec


def test_codes_are_the_librarys(tmp_path, babble):
    """Of whole hops, padded as its own feature extractor does it: by one sample at least, and then to whole hops."""
    save_tiny_neucodec(tmp_path)
    codec, library = load_neucodec(tmp_path), NeuCodecModel.from_pretrained(tmp_path).eval()
    wave = torch.cat(babble(3, seed=2))[:24_000]
    heard = torch.from_numpy(librosa.resample(wave.numpy(), orig_sr=24_000, target_sr=16_000))
    padded = torch.nn.functional.pad(heard, (0, 320 - len(heard) % 320))
    features = SeamlessM4TFeatureExtractor(padding_value=1.0)(padded.numpy(), sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        wanted = library.encode(padded[None, None], features["input_features"]).audio_codes[0, 0]
    assert wanted.unique().numel() > 30
    assert torch.equal(codec.encode(wave), wanted.long())
    assert (codec.encode(wave.flip(0)) == wanted).float().mean() < 0.1
