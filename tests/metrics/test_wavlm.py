"""The WavLM speaker judge on a tiny random checkpoint in the hub's format, held to transformers' own recipe."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pcg.errors import AssetError
from pcg.metrics.recording import Recording, Sample
from pcg.metrics.speaker import Similarity, WavLM

RATE = 16_000


def noise(seed: int, length: int = RATE) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, length).astype(np.float32)


def write_checkpoint(folder: Path, seed: int = 0) -> Path:
    from transformers import Wav2Vec2FeatureExtractor, WavLMConfig, WavLMForXVector

    torch.manual_seed(seed)
    config = WavLMConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, conv_dim=(8,) * 7,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, tdnn_dim=(16, 16, 16, 16, 32), xvector_output_dim=12,
        num_labels=3, use_weighted_layer_sum=True,
    )  # fmt: skip
    WavLMForXVector(config).save_pretrained(folder)
    Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_checkpoint(tmp_path_factory.mktemp("wavlm"))


@pytest.fixture(scope="module")
def judge(checkpoint: Path) -> WavLM:
    return WavLM(str(checkpoint))


def test_embeddings_are_those_of_transformers(checkpoint: Path, judge: WavLM) -> None:
    from transformers import Wav2Vec2FeatureExtractor, WavLMForXVector

    inputs = Wav2Vec2FeatureExtractor.from_pretrained(checkpoint)(noise(1), sampling_rate=RATE, return_tensors="pt")
    with torch.inference_mode():
        theirs = WavLMForXVector.from_pretrained(checkpoint).eval()(**inputs).embeddings[0].numpy()
    assert judge.embed(noise(1), RATE) == pytest.approx(theirs / np.linalg.norm(theirs), abs=1e-5)


def test_similarity_does_not_depend_on_the_batch(judge: WavLM) -> None:
    metric, speaker = Similarity(judge), Recording(noise(1), RATE)
    batch = [Sample(s, RATE, reference=speaker) for s in (noise(1), noise(2, 9000), np.zeros(RATE, np.float32))]
    values = metric.measure(batch)
    assert values[0] == pytest.approx(1.0, abs=1e-5)
    assert -1 <= values[1] < 1
    assert values[2] == 0.0
    assert metric.measure(batch[::-1]) == values[::-1]
    assert metric.measure(batch[1:2]) == values[1:2]


@pytest.mark.parametrize("length", [0, 1, 300, 5000, 12_001])
def test_any_length_and_rate_has_an_embedding(judge: WavLM, length: int) -> None:
    for rate in (RATE, 24_000):
        embedding = judge.embed(noise(1, length), rate)
        assert embedding.shape == (12,)
        assert np.linalg.norm(embedding) == pytest.approx(float(length > 0), abs=1e-5)


def test_the_name_tells_weights_apart(checkpoint: Path, judge: WavLM, tmp_path: Path) -> None:
    names = [WavLM(str(folder)).name for folder in (checkpoint, write_checkpoint(tmp_path / checkpoint.name, seed=1))]
    assert names[0] == judge.name
    assert names[1] != judge.name
    assert names[1].startswith(checkpoint.name)


def test_missing_damaged_and_headless_checkpoints_are_named(checkpoint: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    with pytest.raises(AssetError, match=r"speaker judge .*nothing is missing"):
        WavLM(str(tmp_path / "nothing"))
    damaged = write_checkpoint(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(AssetError, match="damaged"):
        WavLM(str(damaged))
    headless = write_checkpoint(tmp_path / "headless")
    AutoModel.from_pretrained(checkpoint).save_pretrained(headless)
    with pytest.raises(AssetError, match=r"lacks \d+ of its weights"):
        WavLM(str(headless))


def test_weights_that_only_training_needs_may_lack(checkpoint: Path, judge: WavLM, tmp_path: Path) -> None:
    bare = write_checkpoint(tmp_path / checkpoint.name)
    weights = load_file(bare / "model.safetensors")
    kept = {k: v for k, v in weights.items() if not k.startswith("objective")}
    assert len(kept) < len(weights)
    save_file(kept, bare / "model.safetensors", {"format": "pt"})
    assert WavLM(str(bare)).name == judge.name
