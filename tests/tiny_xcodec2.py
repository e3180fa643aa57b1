"""An X-codec2 (and a NeuCodec) checkpoint with random weights, in the real format: 0.7 M parameters, all 65,536 codes."""

from pathlib import Path

import torch
from transformers import NeuCodecConfig, NeuCodecModel, PreTrainedModel, Wav2Vec2BertConfig, Xcodec2Config, Xcodec2Model

SEMANTIC = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "encoder_hidden_size": 4,
    "quantization_dim": 128,
}


def save_tiny_xcodec2(folder: Path, seed: int = 0) -> None:
    """Write `config.json` and `model.safetensors` as `save_pretrained` does."""
    _save(folder, seed, lambda: Xcodec2Model(Xcodec2Config(semantic_model_config=Wav2Vec2BertConfig(**SEMANTIC), **SHAPE)))


def save_tiny_neucodec(folder: Path, seed: int = 0) -> None:
    _save(folder, seed, lambda: NeuCodecModel(NeuCodecConfig(semantic_model_config=Wav2Vec2BertConfig(**SEMANTIC), **SHAPE)))


def _save(folder: Path, seed: int, make) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make().eval()
    with torch.no_grad():
        _enlarge(model)
    model.save_pretrained(folder)


def _enlarge(model: PreTrainedModel) -> None:
    """Far from the tiny initial weights, so that sounds have different codes and attention matters."""
    for name, weight in model.named_parameters():
        if weight.ndim > 1 and not name.startswith("semantic_encoder"):
            gain = 0.75 if name.startswith("acoustic_encoder") else 1.0
            weight.mul_(gain / (weight.std() * weight[0].numel() ** 0.5))
    head = model.acoustic_decoder.head.linear
    magnitudes = len(head.bias) // 2
    head.weight[:magnitudes].mul_(0.3)
    # About the loudness of speech.
    head.bias[:magnitudes].fill_(0.5)
