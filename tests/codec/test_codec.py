"""The quantizer's arithmetic and the codec's shapes and exact lengths."""

import pytest
import torch

from pcg.codec.embedded import FSQ, CodecConfig, EmbeddedCodec


@pytest.mark.parametrize("levels", [[8, 8, 8, 8], [5, 4, 3]])
def test_every_code_survives_a_round_trip(levels):
    fsq = FSQ(levels)
    codes = torch.arange(fsq.codebook_size)
    assert torch.equal(fsq.codes(fsq.values(codes)), codes)
    assert fsq.digits(codes).unique(dim=0).shape[0] == fsq.codebook_size
    assert fsq.values(codes).abs().max() <= 1


def test_quantizing_reaches_every_level_and_passes_gradients():
    fsq = FSQ([8, 5])
    z = torch.linspace(-6, 6, 4001)[:, None].expand(-1, 2).clone().requires_grad_()
    quantized = fsq(z)
    digits = fsq.digits(fsq.codes(quantized))
    assert digits[:, 0].unique().tolist() == list(range(8))
    assert digits[:, 1].unique().tolist() == list(range(5))
    quantized.sum().backward()
    assert (z.grad[1900:2100] > 0).all()


@pytest.fixture(scope="module")
def codec():
    torch.manual_seed(0)
    return EmbeddedCodec(CodecConfig(levels=(4, 4), encoder_width=16, encoder_depth=2, decoder_width=16, wave_width=16)).eval()


@pytest.mark.parametrize("samples", [1, 639, 640, 641, 16_000])
def test_a_code_is_exactly_hop_samples(codec, samples):
    codes = codec.encode(torch.randn(samples).clamp(-1, 1) * 0.1) if samples > 640 else codec.encode(torch.zeros(samples))
    assert len(codes) == -(-samples // codec.hop)
    assert codes.min() >= 0
    assert codes.max() < codec.codebook_size
    wave = codec.decode(codes)
    assert len(wave) == len(codes) * codec.hop
    assert wave.abs().max() <= 1
    assert torch.isfinite(wave).all()


def test_nothing_gives_nothing(codec):
    assert len(codec.decode(torch.zeros(0, dtype=torch.long))) == 0
    assert codec.encode(torch.zeros(0)).tolist() == []


def test_a_batch_of_utterances_sounds_like_each_alone(codec):
    codes = torch.randint(codec.codebook_size, (3, 11), generator=torch.Generator().manual_seed(4))
    together = codec.decode_batch(codes)
    for row, alone in zip(together, codes, strict=True):
        torch.testing.assert_close(row, codec.decode(alone), rtol=0, atol=1e-4)
