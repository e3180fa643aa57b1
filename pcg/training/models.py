"""Llamas that are trained from nothing, the states that heads and drafts read, folders of models, and model cards."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from huggingface_hub import ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.codec.embedded import FSQ, EmbeddedCodec
from pcg.files import replacing, write_json, write_safetensors
from pcg.models.feature_draft import config_of
from pcg.models.weights import Vocabulary
from pcg.recipe import Count
from pcg.synthesis.voice import FORMAT
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training.feature_draft import FeatureModel
from pcg.training.tokens import IGNORED, Batch


@dataclass(frozen=True)
class Shape:
    """Size of a Llama."""

    layers: Count = 12
    width: Count = 256
    heads: Count = 4
    feed_forward: Count = 768


def new_llama(shape: Shape, ids: int, begin: int | None, end: int) -> LlamaForCausalLM:
    """Return a LlamaForCausalLM over so many ids, with tied embeddings and weights that torch draws."""
    config = LlamaConfig(
        vocab_size=ids,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=begin,
        eos_token_id=end,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def new_target(vocabulary: Vocabulary, shape: Shape, seed: int) -> LlamaForCausalLM:
    """Return a random target over specials, phoneme symbols and speech codes."""
    torch.manual_seed(seed)
    return new_llama(shape, vocabulary.first_code + vocabulary.codes, None, vocabulary.end)


@torch.no_grad()
def start_from_digits(model: LlamaForCausalLM, fsq: FSQ, vocabulary: Vocabulary, seed: int) -> None:
    """Give codes that are close in FSQ digits close embeddings: random Fourier features of the digits (Rahimi and Recht, 2007).

    A head start only; training moves them freely.
    """
    generator, width = torch.Generator().manual_seed(seed), model.config.hidden_size
    values = fsq.values(torch.arange(vocabulary.codes))
    frequencies = 2.0 * torch.randn(values.shape[1], width, generator=generator)
    phases = 2 * torch.pi * torch.rand(width, generator=generator)
    features = (values @ frequencies + phases).cos() * 2**0.5 * model.config.initializer_range
    model.get_input_embeddings().weight[vocabulary.first_code : vocabulary.first_code + vocabulary.codes] = features


def speech_states(model: LlamaForCausalLM, batch: Batch, vocabulary: Vocabulary) -> tuple[Tensor, Tensor, Tensor]:
    """Return the states of the S positions with a label `[S, D]`, the head's rows for speech `[V, D]`, and the labels `[S]`."""
    _, hidden = read_target(model, batch, ())
    learned = batch.labels != IGNORED
    head = model.get_output_embeddings().weight[vocabulary.model_ids().to(batch.ids.device)]
    return hidden[learned], head, batch.labels[learned]


def read_target(target: LlamaForCausalLM, batch: Batch, tapped: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the target's states behind the layers `tapped`, `[B, S, layers, D]`, and before its head, `[B, S, D]`."""
    states: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states.append(output if isinstance(output, Tensor) else output[0])

    hooks = [target.model.layers[number - 1].register_forward_hook(keep) for number in sorted(tapped)]
    # The all-ones mask keeps transformers from reading our overlapping positions as several packed sequences.
    mask = torch.ones_like(batch.ids)
    try:
        read = target.model(batch.ids, attention_mask=mask, position_ids=batch.positions, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(states or [read.last_hidden_state], 2), read.last_hidden_state


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
    """Write the model card of the folder `out`: the template `card_NAME.md` filled with `values`. task: the hub's name of what
    the model does."""
    loader, escape = FileSystemLoader(Path(__file__).parent), select_autoescape()
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=escape, lstrip_blocks=True)
    data = ModelCardData(license="apache-2.0", language="en", library_name="pcg-lab", pipeline_tag=task, tags=list(tags))
    text = environment.get_template(f"card_{name}.md").render(values)
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(f"---\n{data.to_yaml()}\n---\n\n{text.strip()}\n", encoding="utf-8")


def stages(work: Path, names: str) -> list[dict[str, object]]:
    """Return the last step, the seconds and the last loss of each kind from the logs `names` (a pattern) in `work`."""
    rows = []
    for log in sorted(work.glob(names)):
        losses = dict(pair for line in log.read_text(encoding="utf-8").splitlines() for pair in json.loads(line).items())
        rows.append({"name": log.stem, "step": int(losses.pop("step")), "seconds": losses.pop("seconds"), "losses": losses})
    return rows
