"""Write a trained voice as the folder that `pcg.synthesis.voice.load_voice` reads: safetensors of 16 bits, and JSON."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.codec.embedded import EmbeddedCodec
from pcg.files import replacing, write_json, write_safetensors
from pcg.models.feature_draft import config_of
from pcg.synthesis.voice import FORMAT
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training.draft.feature import FeatureModel


def write_voice(
    folder: Path,
    name: str,
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM | FeatureModel,
    codec: EmbeddedCodec,
    reader: PhonemeReader,
    references: Mapping[str, Reference],
    usage: Tensor,
    phones: Tensor | None = None,
) -> None:
    """Write everything that a Voice is made of; files that are there are replaced one by one."""
    write_llama(folder / "target", target)
    (write_feature if isinstance(draft, FeatureModel) else write_llama)(folder / "draft", draft)
    write_json(folder / "codec" / "config.json", codec.config.as_dict())
    write_tensors(folder / "codec" / "model.safetensors", {k: v.half() for k, v in codec.state_dict().items()})
    codes = {"usage": usage.to(torch.int32)} | ({} if phones is None else {"phones": phones})
    write_tensors(folder / "usage.safetensors", codes)
    card = {
        "format": FORMAT,
        "name": name,
        "symbols": reader.symbols,
        "durations": reader.durations,
        "voices": {voice: {"text": r.text, "codes": r.codes.tolist()} for voice, r in references.items()},
    }
    with replacing(folder / "voice.json") as temporary:
        temporary.write_text(json.dumps(card, ensure_ascii=False) + "\n", encoding="utf-8")


def write_llama(folder: Path, model: LlamaForCausalLM) -> None:
    """What `save_pretrained` would write for this model, but each file whole or not at all. In bfloat16, which the CPU kernel
    reads fastest (`pcg.models.kernel.vectors.pair`)."""
    config = model.config.to_dict() | {"dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
    write_json(folder / "config.json", config)
    tied = model.config.tie_word_embeddings
    state = {k: v.detach().bfloat16() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    write_tensors(folder / "model.safetensors", state)


def write_feature(folder: Path, draft: FeatureModel) -> None:
    """A feature draft as `pcg.models.feature_draft.read_feature_draft` reads it."""
    write_json(folder / "config.json", config_of(draft.shape))
    write_tensors(folder / "model.safetensors", {name: tensor.bfloat16() for name, tensor in draft.state_dict().items()})


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write `tensors`, named as transformers and safetensors read them, whole or not at all."""
    write_safetensors(path, {k: t.detach().cpu().contiguous() for k, t in tensors.items()}, {"format": "pt"})
