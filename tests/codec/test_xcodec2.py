"""X-codec2 behind the codec interface, on a checkpoint of the real format with random weights."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_xcodec2 import save_tiny_xcodec2
from torch import nn
from transformers import Xcodec2Model

from pcg.codec.hub import load_xcodec2, self_check
from pcg.errors import AssetError, InputError

RADIX = 4 ** torch.arange(8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("xcodec2")
    save_tiny_xcodec2(path)
    return path


@pytest.fixture(scope="module")
def codec(folder):
    return load_xcodec2(folder)


@pytest.fixture(scope="module")
def library(folder):
    """transformers' own model of the same checkpoint."""
    return Xcodec2Model.from_pretrained(folder).eval()


def plain_features(wave: np.ndarray) -> np.ndarray:
    """Kaldi's log filter banks, 25 ms every 10 ms, each normalised over time: `[2 T, 80]` of whole hops `[320 T]`."""
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(wave, 160).astype(np.float64) * 2**15, 400)[::160]
    frames = frames - frames.mean(1, keepdims=True)
    frames = frames - 0.97 * np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    povey = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.fft.rfft(frames * povey, 512)) ** 2
    mel = 1127 * np.log1p(np.arange(257) * 16_000 / 512 / 700)
    corners = np.linspace(1127 * np.log1p(20 / 700), 1127 * np.log1p(8000 / 700), 82)
    rising = (mel[:, None] - corners[:-2]) / np.diff(corners)[:-1]
    falling = (corners[2:] - mel[:, None]) / np.diff(corners)[1:]
    banks = np.log(np.maximum(power @ np.maximum(0, np.minimum(rising, falling)), 1.192092955078125e-07))
    return (banks - banks.mean(0)) / np.sqrt(banks.var(0, ddof=1) + 1e-7)


def plain_codes(codec_model, wave: torch.Tensor) -> torch.Tensor:
    """The codes of `wave [N]`: features and quantizer by their definitions, the two networks between them by the library."""
    padded = nn.functional.pad(wave, (0, 320 - len(wave) % 320))
    features = torch.from_numpy(plain_features(padded.numpy())).float().reshape(1, -1, 160)
    semantic = codec_model.semantic_adapter(codec_model.semantic_encoder(features).last_hidden_state.transpose(1, 2))
    both = torch.cat([semantic, codec_model.acoustic_encoder(padded[None, None])], dim=1)
    hidden = codec_model.quantizer.project_in(codec_model.fc_encoder(both.transpose(1, 2)))[0].double()
    # The original bounds twice; four levels are -2, -1, 0, 1.
    for _ in range(2):
        hidden = (hidden + math.atanh(0.5 / 1.5015)).tanh() * 1.5015 - 0.5
    return ((hidden.round() + 2).long() * RADIX).sum(-1)


def test_codes_are_those_of_a_plain_computation(codec, library, wave):
    with torch.inference_mode():
        plain = plain_codes(library, wave)[: -(-len(wave) // 320)]
    found = codec.encode(wave)
    assert found.unique().numel() > 0.6 * len(found)
    # A value at the border of two levels may fall on either side.
    assert (found == plain).float().mean() > 0.97
    assert (codec.encode(0.5 * wave.flip(0)) == plain).float().mean() < 0.1


def edited(folder: Path, target: Path, edit) -> Path:
    """A copy of the checkpoint whose tensors `edit` changed."""
    tensors = load_file(folder / "model.safetensors")
    save_file(edit(tensors), target / "model.safetensors", {"format": "pt"})
    (target / "config.json").write_text((folder / "config.json").read_text())
    return target


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda t: {f"generator.{k}": v for k, v in t.items()}, "lacks weights"),
        (lambda t: {k: v for k, v in t.items() if k != "acoustic_decoder.layers.1.mlp.fc1.weight"}, "layers.1.mlp.fc1"),
        (lambda t: t | {"acoustic_decoder.layers.2.mlp.fc1.weight": torch.zeros(128, 64)}, "unknown weights"),
        (
            lambda t: t | {"quantizer.project_out.weight": torch.zeros(128, 7)},
            r"other shapes: quantizer\.project_out\.weight\.",
        ),
        (lambda t: {k: torch.full_like(v, math.nan) for k, v in t.items()}, "no numbers"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused(folder, tmp_path, edit, said):
    with pytest.raises(AssetError, match=said) as refusal:
        load_xcodec2(edited(folder, tmp_path, edit))
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


def test_buffers_that_a_file_holds_are_no_reason_to_refuse_it(folder, tmp_path, codec, codes):
    window = {"acoustic_decoder.head.window": torch.hann_window(1280)}
    kept = load_xcodec2(edited(folder, tmp_path, lambda t: t | window))
    assert torch.equal(kept.decode(codes), codec.decode(codes))


def test_what_is_no_such_checkpoint_is_named(folder, tmp_path):
    original = {"model_type": "xcodec2", "architectures": ["XCodec2Model"], "codec_decoder_hidden_size": 1024}
    edited(folder, tmp_path, lambda t: t)
    for config, said in ((original, "HKUSTAudio/xcodec2-hf"), ({"model_type": "llama"}, "'llama'"), ({}, "None")):
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(AssetError, match=said):
            load_xcodec2(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.truncate(100_000)
    with pytest.raises(AssetError, match="damaged"):
        load_xcodec2(tmp_path)
    with pytest.raises(AssetError, match="missing"):
        load_xcodec2(tmp_path / "none")
    with pytest.raises(InputError, match="device"):
        load_xcodec2(folder, device="tpu")


def test_the_check_at_loading_hears_what_weights_cannot_tell(folder):
    """Each damage is one that transformers or its predecessors could do without an error."""

    def other_table(model):
        model.quantizer.quantizer.codebook.copy_(torch.rand(65_536, 8))

    def no_window(model):
        model.acoustic_decoder.head.window.fill_(1.0)

    def causal(model):
        model.acoustic_decoder.layers[0].self_attn.is_causal = True

    for damage, said in ((other_table, "code table"), (no_window, "window"), (causal, "look ahead")):
        model = Xcodec2Model.from_pretrained(folder).eval()
        self_check(model, "codec")
        with torch.no_grad():
            damage(model)
        with pytest.raises(AssetError, match=said):
            self_check(model, "codec")
