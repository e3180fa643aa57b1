"""NeuCodec behind the codec interface, on a checkpoint of the real format with random weights."""

import librosa
import numpy as np
import pytest
import torch
from tiny_xcodec2 import save_tiny_neucodec, save_tiny_xcodec2
from transformers import NeuCodecModel, SeamlessM4TFeatureExtractor

from pcg.codec.neucodec import load_neucodec
from pcg.codec.streaming import AudioStream
from pcg.codec.xcodec2 import load_xcodec2
from pcg.errors import AssetError, PCGError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("neucodec")
    save_tiny_neucodec(path)
    return path


@pytest.fixture(scope="module")
def codec(folder):
    return load_neucodec(folder)


@pytest.fixture(scope="module")
def library(folder):
    return NeuCodecModel.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def codes():
    return torch.randint(65_536, (120,), generator=torch.Generator().manual_seed(0))


def test_it_speaks_24_khz(codec, library, codes):
    assert (codec.sample_rate, codec.hop, codec.codebook_size) == (24_000, 480, 65_536)
    with torch.inference_mode():
        assert torch.equal(codec.decode(codes), library.decode(codes[None, None]).audio_values[0, 0].clamp(-1, 1))


@pytest.mark.parametrize("samples", [0, 1, 479, 480, 481, 9_600, 12_345])
def test_a_code_is_exactly_one_hop(codec, babble, samples):
    found = codec.encode(torch.cat(babble(2, seed=2))[:samples])
    assert found.shape == (-(-samples // 480),)
    assert len(codec.decode(found)) == 480 * len(found)


def test_codes_are_the_librarys(codec, library, babble):
    """Of whole hops, padded as its own feature extractor does it: by one sample at least, and then to whole hops."""
    wave = torch.cat(babble(3, seed=2))[:24_000]
    heard = torch.from_numpy(librosa.resample(wave.numpy(), orig_sr=24_000, target_sr=16_000))
    padded = torch.nn.functional.pad(heard, (0, 320 - len(heard) % 320))
    features = SeamlessM4TFeatureExtractor(padding_value=1.0)(padded.numpy(), sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        wanted = library.encode(padded[None, None], features["input_features"]).audio_codes[0, 0]
    assert wanted.unique().numel() > 30
    assert torch.equal(codec.encode(wave), wanted.long())
    assert (codec.encode(wave.flip(0)) == wanted).float().mean() < 0.1


def test_half_of_it_decodes_all_the_same(codec, folder, codes):
    half = load_neucodec(folder, decode_only=True)
    assert torch.equal(half.decode(codes), codec.decode(codes))
    with pytest.raises(PCGError, match="decoding only"):
        half.encode(torch.zeros(480))


def test_it_streams(codec, codes):
    stream = AudioStream(codec, codes[:20])
    chunks = [*(stream.push([code]) for code in codes[20:].tolist()), stream.finish()]
    assert len(np.concatenate(chunks)) == 100 * 480


def test_another_codec_is_refused(folder, tmp_path):
    save_tiny_xcodec2(tmp_path)
    with pytest.raises(AssetError, match="'xcodec2', but must be of 'neucodec'"):
        load_neucodec(tmp_path)
    with pytest.raises(AssetError, match="'neucodec', but must be of 'xcodec2'"):
        load_xcodec2(folder)
