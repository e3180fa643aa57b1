"""A Llama or a Qwen2 as named tensors and the few numbers that say how to use them: what `DecodingLlama` is built from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pcg.errors import AssetError

if TYPE_CHECKING:  # seconds to import, which a page with published weights need not wait for
    from transformers import LlamaForCausalLM, Qwen2ForCausalLM

EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """tensors: the weights by the names that transformers gives them; a tied head may be left out. inverse_frequency
    `[dim / 2]`, rope_scale: how positions turn queries and keys."""

    tensors: Mapping[str, Tensor]
    layers: int
    heads: int
    kv_heads: int
    dim: int
    epsilon: float
    inverse_frequency: Tensor
    rope_scale: float = 1.0

    @classmethod
    def of(cls, model: "LlamaForCausalLM | Qwen2ForCausalLM") -> "Checkpoint":
        """The weights of a model of transformers, not copied."""
        config, rotary = model.config, model.model.rotary_emb
        return cls(
            tensors=model.state_dict(),
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            epsilon=config.rms_norm_eps,
            inverse_frequency=rotary.inv_freq.float(),
            rope_scale=float(rotary.attention_scaling),
        )

    @property
    def embedding(self) -> Tensor:
        return self.tensors[EMBEDDING]

    @property
    def head(self) -> Tensor:
        return self.tensors.get(HEAD, self.embedding)

    @property
    def norm(self) -> Tensor:
        return self.tensors[NORM]

    def subset(self, layers: Sequence[int]) -> "Checkpoint":
        """A model of these `layers` (in order), the embedding, the final norm and the head (PCG section 3.1), not copied."""
        tensors = {name: tensor for name, tensor in self.tensors.items() if ".layers." not in name}
        for place, index in enumerate(layers):
            old, new = f"model.layers.{index}.", f"model.layers.{place}."
            tensors |= {new + name.removeprefix(old): t for name, t in self.tensors.items() if name.startswith(old)}
        return replace(self, tensors=tensors, layers=len(layers))

    def to(self, device: str | torch.device) -> "Checkpoint":
        tensors = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return replace(self, tensors=tensors, inverse_frequency=self.inverse_frequency.to(device))


def names_of(layer: int) -> list[str]:
    """The weights of a layer, without the biases that a Qwen2 has."""
    prefix = f"model.layers.{layer}."
    inner = [*(f"self_attn.{part}" for part in ATTENTION), *(f"mlp.{part}" for part in MLP)]
    return [f"{prefix}{part}.weight" for part in [*inner, "input_layernorm", "post_attention_layernorm"]]


@dataclass(frozen=True)
class FusedWeights:
    """The weights of all layers, each `[layers, out, in]`; norms `[layers, in]`; biases `[layers, out]`, or `[layers, 0]` where
    a model has none."""

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor

    @classmethod
    def fuse(cls, checkpoint: Checkpoint) -> "FusedWeights":
        tensors, layers = checkpoint.tensors, range(checkpoint.layers)
        projections = [f"self_attn.{part}_proj" for part in "qkv"]
        allowed = {f"model.layers.{layer}.{part}.bias" for layer in layers for part in projections}
        if any(name.endswith(".bias") and name not in allowed for name in tensors):
            raise AssetError("The language model has biases elsewhere than on queries, keys and values: choose another.")

        def stack(*parts: str) -> Tensor:
            return torch.stack([torch.cat([tensors[f"model.layers.{layer}.{part}"] for part in parts]) for layer in layers])

        biased = bool(allowed & tensors.keys())
        return cls(
            norm=stack("input_layernorm.weight"),
            qkv=stack(*(f"{part}.weight" for part in projections)),
            qkv_bias=stack(*(f"{part}.bias" for part in projections)) if biased else checkpoint.norm.new_empty(len(layers), 0),
            out=stack("self_attn.o_proj.weight"),
            mlp_norm=stack("post_attention_layernorm.weight"),
            gate_up=stack("mlp.gate_proj.weight", "mlp.up_proj.weight"),
            down=stack("mlp.down_proj.weight"),
        )

    @property
    def layers(self) -> int:
        return len(self.norm)

    @property
    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.qkv, self.out, self.gate_up, self.down

    @property
    def inputs(self) -> list[int]:
        """Of each of the matrices."""
        return [matrix.shape[-1] for matrix in self.matrices]

    @property
    def bytes(self) -> int:
        return sum(getattr(self, f.name).nbytes for f in fields(self))
