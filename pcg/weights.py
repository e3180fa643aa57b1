"""Checkpoints of a Llama or a Qwen2 as transformers writes them: `config.json`, and safetensors in one file or in shards with
an index."""

import json
from math import prod
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaForCausalLM, Qwen2ForCausalLM
from transformers.utils import logging

from pcg.errors import AssetError
from pcg.vocabulary import Vocabulary

KINDS = {"llama": LlamaForCausalLM, "qwen2": Qwen2ForCausalLM}
"""What `pcg.decoding.llama` computes, by `model_type`."""
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def load_llama(folder: Path, vocabulary: Vocabulary, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM | Qwen2ForCausalLM:
    """Load a transformers checkpoint on the CPU and check that it is whole and speaks the vocabulary.

    Whether the head is tied to the embedding, and how positions turn, is read from the loaded module: configs have been wrong
    about the one and moved the other (`rope_theta` into `rope_parameters`). Raises AssetError.
    """
    kind = _kind(folder / "config.json")
    count_weights(folder)
    # Its bar on stderr would stand before the one sentence that says what is wrong.
    logging.disable_progress_bar()
    try:
        model, info = kind.from_pretrained(
            folder, dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:
        raise AssetError(f"The language model in {folder} is missing or damaged ({first_line(error)}).") from error
    if info["missing_keys"] or info["mismatched_keys"]:
        lacking = sorted(map(str, info["missing_keys"] or info["mismatched_keys"]))[:3]
        raise AssetError(f"The language model in {folder} lacks weights: {lacking}.")
    known = model.get_input_embeddings().num_embeddings
    if known <= max(vocabulary.end, vocabulary.first_code + vocabulary.codes - 1):
        raise AssetError(f"The language model in {folder} has {known} ids, too few for this voice.")
    return model.eval()


def count_weights(folder: Path) -> int:
    """How many numbers a checkpoint holds, by the headers of its files; raise AssetError if one is missing or cut short."""
    return sum(_count(file) for file in shards(folder))


def shards(folder: Path) -> list[Path]:
    """The weights files of a checkpoint; raise AssetError where one is not there."""
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


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")


def _count(file: Path) -> int:
    try:
        with safe_open(file, "pt") as tensors:
            return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    except Exception as error:
        raise AssetError(
            f"The weights file {file} is damaged or cut short ({first_line(error)}); download it again."
        ) from error


def _kind(path: Path) -> type[LlamaForCausalLM | Qwen2ForCausalLM]:
    """The class of the model with the config `path`; transformers reads a missing or odd one as its default, a model of seven
    billion parameters in random weights."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = KINDS[config["model_type"]]
        if not all(config[k] for k in ("hidden_size", "num_hidden_layers", "vocab_size")) or config.get("use_sliding_window"):
            raise ValueError("it has no shape, or attends to a window only, which nothing here does")
        return kind
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The config {path} is missing or damaged ({type(error).__name__}).") from error
