"""What X-codec2 and NeuCodec have in common as codecs, on checkpoints of the real formats with random weights."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tiny_xcodec2 import save_tiny_neucodec, save_tiny_xcodec2
from transformers import NeuCodecModel, PreTrainedModel, Xcodec2Model

from pcg.audio import fade_ends
from pcg.codec.codec import Anchor
from pcg.codec.hub import load_neucodec, load_xcodec2
from pcg.codec.streaming import AudioStream
from pcg.errors import AssetError


@dataclass(frozen=True)
class Kind:
    name: str
    save: Callable
    load: Callable
    library: type[PreTrainedModel]
    sample_rate: int
    hop: int


XCODEC2 = Kind("xcodec2", save_tiny_xcodec2, load_xcodec2, Xcodec2Model, 16_000, 320)
NEUCODEC = Kind("neucodec", save_tiny_neucodec, load_neucodec, NeuCodecModel, 24_000, 480)


@pytest.fixture(scope="module", params=[XCODEC2, NEUCODEC], ids=lambda kind: kind.name)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tmp_path_factory):
    path = tmp_path_factory.mktemp(kind.name)
    kind.save(path)
    return path


@pytest.fixture(scope="module")
def codec(kind, folder):
    return kind.load(folder)


def test_it_has_65536_codes_of_20_milliseconds(kind, codec, codes):
    assert (codec.sample_rate, codec.hop, codec.codebook_size) == (kind.sample_rate, kind.hop, 65_536)
    sound, phases = codec.render(codes, Anchor())
    assert sound.shape == (400 * kind.hop,)
    assert sound.dtype == torch.float32
    assert sound.abs().max() <= 1
    assert torch.equal(phases, torch.zeros(401))
    assert len(codec.decode(codes[:0])) == 0


def test_samples_are_the_librarys(kind, codec, folder, codes):
    library = kind.library.from_pretrained(folder).eval()
    with torch.inference_mode():
        assert torch.equal(codec.decode(codes), library.decode(codes[None, None]).audio_values[0, 0].clamp(-1, 1))


@pytest.mark.parametrize(("hops", "more"), [(0, 0), (0, 1), (1, -1), (1, 0), (1, 1), (10, 0), (12, 161), (25, 345)])
def test_a_code_is_exactly_one_hop(kind, codec, wave, hops, more):
    samples = hops * kind.hop + more
    codes = codec.encode(wave[:samples])
    assert codes.shape == (-(-samples // kind.hop),)
    assert codes.dtype == torch.int64
    assert len(codec.decode(codes)) == kind.hop * len(codes)


def test_a_batch_of_utterances_sounds_like_each_alone(codec, codes):
    rows = codes.reshape(4, 100)
    for together, row in zip(codec.decode_batch(rows), rows, strict=True):
        torch.testing.assert_close(together, codec.decode(row), rtol=0, atol=1e-5)


def stream_error(codec, codes, **window):
    """Energy of the difference to the decode at once, in dB, where all comes in pushes of three codes."""
    stream = AudioStream(codec, codes[:150], **window)
    chunks = [*(stream.push(codes[i : i + 3].tolist()) for i in range(150, len(codes), 3)), stream.finish()]
    wanted = fade_ends(codec.decode(codes)[150 * codec.hop :].numpy(), codec.sample_rate)
    heard = np.concatenate(chunks)
    assert len(heard) == len(wanted)
    return 10 * math.log10(float(np.square(heard - wanted).sum() / np.square(wanted).sum()) + 1e-20)


def test_a_stream_is_near_the_decode_at_once(codec, codes):
    """Attention and group norms see the whole utterance, so no window gives it exactly; -18 dB here, of random weights, where a
    group of a norm is 2 channels wide (32 in the real one). The controls: no past, no future, and a window that holds all."""
    error = stream_error(codec, codes)
    assert error < -16
    assert stream_error(codec, codes, past=10) > error + 5
    assert stream_error(codec, codes, future=0) > error + 5
    assert stream_error(codec, codes, past=10_000, future=10_000) < -100


@pytest.mark.parametrize("past", [20, 150])
def test_the_first_sound_of_a_stream_is_small(codec, codes, past):
    stream = AudioStream(codec, codes[:past])
    sizes = [len(stream.push([code])) for code in codes[past:].tolist()]
    first = next(i for i, size in enumerate(sizes) if size)
    assert first + 1 == 10 + codec.future_tokens
    assert sizes[first] == 10 * codec.hop
    assert sum(sizes) + len(stream.finish()) == (400 - past) * codec.hop


def test_the_other_codec_is_refused(kind, folder):
    other = NEUCODEC if kind is XCODEC2 else XCODEC2
    with pytest.raises(AssetError, match=f"'{kind.name}', but must be of '{other.name}'"):
        other.load(folder)
