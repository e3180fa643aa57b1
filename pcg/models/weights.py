"""A Llama or a Qwen2 as named tensors and the few numbers that say how to use them, and which of its ids are speech."""

import json
import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from pcg.errors import AssetError, InputError, PCGError, first_line

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, Qwen2ForCausalLM


def check_device(device: str) -> None:
    """Raise InputError unless `device` is one that this machine has."""
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))


@dataclass(frozen=True)
class Vocabulary:
    """Which ids of a model are speech: code 0 has the id `first_code`, the others follow; `end` is that of the end of speech.

    Decoding, rules and groups count speech tokens from 0: code i is `i`, and the end of speech is `codes`, the last index.
    """

    codes: int
    first_code: int
    end: int

    @property
    def size(self) -> int:
        """Entries of a row of probabilities: every code and the end of speech."""
        return self.codes + 1

    @property
    def eos(self) -> int:
        """The end of speech as a token index."""
        return self.codes

    def model_ids(self) -> Tensor:
        """Return the model's id of every token index, `[size]`: the rows that the LM head is sliced to."""
        return torch.cat([torch.arange(self.first_code, self.first_code + self.codes), torch.tensor([self.end])])


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
        """Return the weights of a model of transformers, not copied."""
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
        """Return a model of these `layers`, the embedding, the final norm and the head (PCG section 3.1), not copied."""
        tensors = {name: tensor for name, tensor in self.tensors.items() if ".layers." not in name}
        for place, index in enumerate(layers):
            old, new = f"model.layers.{index}.", f"model.layers.{place}."
            tensors |= {new + name.removeprefix(old): t for name, t in self.tensors.items() if name.startswith(old)}
        return replace(self, tensors=tensors, layers=len(layers))

    def to(self, device: str | torch.device) -> "Checkpoint":
        tensors = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return replace(self, tensors=tensors, inverse_frequency=self.inverse_frequency.to(device))


def names_of(layer: int) -> list[str]:
    """Return the weights of a layer, without the biases that a Qwen2 has."""
    prefix = f"model.layers.{layer}."
    inner = [*(f"self_attn.{part}" for part in ATTENTION), *(f"mlp.{part}" for part in MLP)]
    return [f"{prefix}{part}.weight" for part in [*inner, "input_layernorm", "post_attention_layernorm"]]


@dataclass(frozen=True)
class FusedWeights:
    """The weights of all layers, each `[layers, out, in]`; norms `[layers, in]`; biases `[layers, out]` or `[layers, 0]`."""

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

    def in_eight_bits(self) -> "FusedWeights":
        """Return the same with matrices of 8 bits (`eight_bits`), a tuple of one a layer."""
        names = ("qkv", "out", "gate_up", "down")
        return replace(self, **{name: tuple(eight_bits(matrix) for matrix in getattr(self, name)) for name in names})

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
        return sum(bytes_of(weight) for f in fields(self) for weight in getattr(self, f.name))


def eight_bits(matrix: Tensor) -> Tensor:
    """Round `matrix [out, in]` to whole numbers of 8 bits with one scale an output, by torchao; raise PCGError without it."""
    logging.disable(logging.WARNING)  # it tells of kernels that it has not got here
    try:
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
    except ImportError as error:
        how = 'pip install -r requirements-int8.txt in a checkout, pip install "pcg-lab[int8] @ git+URL" elsewhere'
        raise PCGError(f"Weights of 8 bits need the package torchao: {how}.") from error
    finally:
        logging.disable(logging.NOTSET)
    module = nn.Linear(*matrix.shape[::-1], bias=False, device="meta")
    module.weight = nn.Parameter(matrix, requires_grad=False)
    quantize_(module, Int8WeightOnlyConfig())
    return module.weight


def has_eight_bits(weight: Tensor) -> bool:
    return hasattr(weight, "qdata")


def bytes_of(weight: Tensor) -> int:
    return weight.qdata.nbytes + weight.scale.nbytes if has_eight_bits(weight) else weight.nbytes


def layer_subset(target: "LlamaForCausalLM", layers: Sequence[int]) -> "LlamaForCausalLM":
    """Copy the target's `layers` (in order), its embedding, its final norm and its head, to be trained (PCG 3.1)."""
    config = deepcopy(target.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[i] for i in layers]
    draft = type(target)(config)
    draft.load_state_dict(dict(Checkpoint.of(target).subset(layers).tensors))
    return draft


KINDS = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
"""What `pcg.models.llama` computes, by `model_type`."""
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def load_llama(
    folder: Path, vocabulary: Vocabulary, dtype: torch.dtype = torch.float32
) -> "LlamaForCausalLM | Qwen2ForCausalLM":
    """Load a transformers checkpoint on the CPU and check that it is whole and speaks the vocabulary.

    Whether the head is tied to the embedding, and how positions turn, is read from the loaded module: configs have been wrong
    about the one and moved the other (`rope_theta` into `rope_parameters`). Raises AssetError.
    """
    kind = KINDS[read_config(folder)["model_type"]]
    count_weights(folder)
    import transformers

    # Its bar on stderr would stand before the one sentence that says what is wrong.
    transformers.utils.logging.disable_progress_bar()
    try:
        model, info = getattr(transformers, kind).from_pretrained(
            folder, dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:
        raise AssetError(f"The language model in {folder} is missing or damaged ({first_line(error)}).") from error
    if info["missing_keys"] or info["mismatched_keys"]:
        lacking = sorted(map(str, info["missing_keys"] or info["mismatched_keys"]))[:3]
        raise AssetError(f"The language model in {folder} lacks weights: {lacking}.")
    _check_ids(folder, model.get_input_embeddings().num_embeddings, vocabulary)
    return model.eval()


def read_checkpoint(folder: Path, vocabulary: Vocabulary, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Load what `load_llama` loads, as `DecodingLlama` takes it, on the CPU.

    A plain Llama's, as the recipes here write it, is read from its file, since transformers takes seconds to import: one file,
    positions that turn by the formula of RoPE alone, and a head that is there unless it is tied. Raises AssetError.
    """
    config, files = read_config(folder), shards(folder)
    tensors = read_tensors(files[0]) if len(files) == 1 else {}
    rope, is_tied = config.get("rope_parameters") or {}, bool(config.get("tie_word_embeddings"))
    if config["model_type"] != "llama" or rope.get("rope_type") != "default" or is_tied == (HEAD in tensors):
        return Checkpoint.of(load_llama(folder, vocabulary, dtype))
    try:
        heads = config["num_attention_heads"]
        dim = config.get("head_dim") or config["hidden_size"] // heads
        halves = torch.arange(0, dim, 2, dtype=torch.int64).float() / dim
        read = Checkpoint(
            tensors={name: tensor.to(dtype) for name, tensor in tensors.items()},
            layers=config["num_hidden_layers"],
            heads=heads,
            kv_heads=config["num_key_value_heads"],
            dim=dim,
            epsilon=float(config["rms_norm_eps"]),
            inverse_frequency=1.0 / rope["rope_theta"] ** halves,
        )
        lacking = _lacking(read, config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise AssetError(f"The config {folder / 'config.json'} is damaged ({first_line(error)}).") from error
    if lacking:
        raise AssetError(f"The language model in {folder} lacks weights: {lacking[:3]}.")
    _check_ids(folder, len(read.embedding), vocabulary)
    return read


def count_weights(folder: Path) -> int:
    """Count the numbers of a checkpoint by the headers of its files; raise AssetError if one is missing or cut short."""
    return sum(_count(file) for file in shards(folder))


def shards(folder: Path) -> list[Path]:
    """Return the weights files of a checkpoint; raise AssetError where one is not there."""
    index = folder / INDEX
    if (folder / SINGLE).is_file() or not index.is_file():
        names = [SINGLE]
    else:
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            if not names or any(Path(name).name != name for name in names):
                raise ValueError("it names no files beside it")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AssetError(f"The list of weights {index} is damaged ({first_line(error)}); download it again.") from error
    for name in names:
        if not (folder / name).is_file():
            part = "" if names == [SINGLE] else f", one of {len(names)} parts"
            raise AssetError(f"The language model {folder / name}{part} is missing.")
    return [folder / name for name in names]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Everything in a safetensors file, on the CPU."""
    if not path.is_file():
        raise AssetError(f"The weights file {path} is missing.")
    try:
        return load_file(path)
    except Exception as error:
        raise AssetError(f"The weights file {path} is damaged ({first_line(error)}).") from error


def _count(file: Path) -> int:
    try:
        with safe_open(file, "pt") as tensors:
            return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    except Exception as error:
        raise AssetError(
            f"The weights file {file} is damaged or cut short ({first_line(error)}); download it again."
        ) from error


def _lacking(read: Checkpoint, config: Mapping[str, object]) -> list[str]:
    """Return the names of weights that are not there, or not of the shape that the config states."""
    width, inner, ids = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    rows = {"q_proj": read.heads * read.dim, "o_proj": width, "gate_proj": inner, "up_proj": inner, "down_proj": width}
    columns = {"o_proj": read.heads * read.dim, "down_proj": inner}
    expected = {EMBEDDING: (ids, width), NORM: (width,)} | ({HEAD: (ids, width)} if HEAD in read.tensors else {})
    for layer in range(read.layers):
        for name in names_of(layer):
            part = name.split(".")[-2]
            matrix = (rows.get(part, read.kv_heads * read.dim), columns.get(part, width))
            expected[name] = (width,) if part.endswith("norm") else matrix
    return sorted(name for name, shape in expected.items() if name not in read.tensors or read.tensors[name].shape != shape)


def _check_ids(folder: Path, known: int, vocabulary: Vocabulary) -> None:
    if known <= max(vocabulary.end, vocabulary.first_code + vocabulary.codes - 1):
        raise AssetError(f"The language model in {folder} has {known} ids, too few for this voice.")


def read_config(folder: Path) -> dict[str, object]:
    """Read the config of a Llama or a Qwen2 in `folder`; transformers reads a missing or odd one as its default, a model of
    seven billion parameters in random weights. Raises AssetError."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] not in KINDS:
            raise ValueError("it is of another kind")
        if not all(config[k] for k in ("hidden_size", "num_hidden_layers", "vocab_size")) or config.get("use_sliding_window"):
            raise ValueError("it has no shape, or attends to a window only, which nothing here does")
        return config
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The config {path} is missing or damaged ({first_line(error)}).") from error
