"""Write models as the folders that the engine loads, and model cards."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from huggingface_hub import ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.codec.embedded import EmbeddedCodec
from pcg.files import replacing, write_json, write_safetensors
from pcg.models.feature_draft import config_of
from pcg.synthesis.voice import FORMAT
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training.feature_draft import FeatureModel

CARDS = Path(__file__).with_name("cards")


def write_voice(
    folder: Path,
    name: str,
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM | FeatureModel,
    codec: EmbeddedCodec,
    reader: PhonemeReader,
    references: Mapping[str, Reference],
    usage: Tensor,
) -> None:
    """Write everything that a Voice is made of; files that are there are replaced one by one."""
    write_model(folder / "target", target)
    write_model(folder / "draft", draft)
    write_json(folder / "codec" / "config.json", asdict(codec.config))
    _write_tensors(folder / "codec" / "model.safetensors", {k: v.half() for k, v in codec.state_dict().items()})
    _write_tensors(folder / "usage.safetensors", {"usage": usage.to(torch.int32)})
    voices = {voice: {"text": r.text, "codes": r.codes.tolist()} for voice, r in references.items()}
    read = {"symbols": reader.symbols, "durations": reader.durations}
    write_json(folder / "voice.json", {"format": FORMAT, "name": name, **read, "voices": voices}, indent=None)


def write_model(folder: Path, model: LlamaForCausalLM | FeatureModel) -> None:
    """Write a Llama as `save_pretrained` would, or a feature draft as `read_feature_draft` reads it, each file whole or not at
    all. In bfloat16, which the CPU kernel reads fastest (`pcg.models.kernel.vectors.pair`)."""
    state = model.state_dict()
    if isinstance(model, FeatureModel):
        config = config_of(model.shape)
    else:
        config = model.config.to_dict() | {"dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
        if model.config.tie_word_embeddings:
            del state["lm_head.weight"]
    write_json(folder / "config.json", config)
    _write_tensors(folder / "model.safetensors", {name: tensor.bfloat16() for name, tensor in state.items()})


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    write_safetensors(path, {k: t.detach().cpu().contiguous() for k, t in tensors.items()}, {"format": "pt"})


def write_card(out: Path, name: str, task: str, tags: Sequence[str], **values: object) -> None:
    """Write the model card of the folder `out`: the template `name` of `cards/` filled with `values`.

    Args:
        task: the hub's name of what the model does.
    """
    loader, escape = FileSystemLoader(CARDS), select_autoescape()
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=escape, lstrip_blocks=True)
    data = ModelCardData(license="apache-2.0", language="en", library_name="pcg-lab", pipeline_tag=task, tags=list(tags))
    text = environment.get_template(f"{name}.md").render(values)
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(f"---\n{data.to_yaml()}\n---\n\n{text.strip()}\n", encoding="utf-8")


def stages(work: Path, names: str) -> list[dict[str, object]]:
    """Return the last step, the seconds and the last loss of each kind from the logs `names` (a pattern) in `work`."""
    rows = []
    for log in sorted(work.glob(names)):
        losses = dict(pair for line in log.read_text(encoding="utf-8").splitlines() for pair in json.loads(line).items())
        rows.append({"name": log.stem, "step": int(losses.pop("step")), "seconds": losses.pop("seconds"), "losses": losses})
    return rows
