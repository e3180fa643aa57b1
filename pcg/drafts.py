"""Which draft speaks along with a target: a trained one, layers of the target itself, what was said before, or none."""

import hashlib
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decoding.llama import DecodingLlama
from pcg.decoding.lookup import PromptLookup
from pcg.errors import AssetError, InputError
from pcg.hub import content_digest
from pcg.vocabulary import Vocabulary
from pcg.weights import load_llama

AUTO, TRAINED, LOOKUP, NONE = "auto", "trained", "lookup", "none"
LAYERS, FOLDER = "layers:", "folder:"
LONGEST_SHOWN = 60
NO_DRAFT = "No draft is loaded, so only AR can speak."
COPIES = "Drafts are copied from what was said before (prompt lookup), and most rounds have none."


@dataclass(frozen=True)
class Draft:
    """Who drafts.

    kind: its name wherever it is noted, and never a path: "trained" (the one that belongs to the voice), "layers:0,1,27" (of
    the target, untrained), "lookup", "none", or "folder:" and the start of the SHA-256 of another trained one. model: None
    where nothing drafts, so that only AR can speak. notice: what a listener has to know, one sentence, or "".
    """

    kind: str
    model: DecodingLlama | PromptLookup | None
    notice: str


def choose_draft(choice: str, target: LlamaForCausalLM, vocabulary: Vocabulary, folder: Path | None) -> Draft:
    """The draft that `choice` asks for, on the device and in the type of `target`.

    choice: "auto" (the trained draft in `folder` if that is there, else three layers of the target), "layers:0,1,27", "lookup",
    "none", or a folder that holds a trained draft. Raises InputError for anything else and for a draft of other ids than the
    target's, AssetError for a damaged one.
    """
    if choice == NONE:
        return Draft(NONE, None, NO_DRAFT)
    if choice == LOOKUP:
        return Draft(LOOKUP, PromptLookup(vocabulary), COPIES)
    kind, model = draft_model(choice, target, vocabulary, folder)
    return Draft(kind, DecodingLlama(model, vocabulary), untrained_notice(kind))


def draft_model(
    choice: str, target: LlamaForCausalLM, vocabulary: Vocabulary, folder: Path | None
) -> tuple[str, LlamaForCausalLM]:
    """The kind and the model of a draft that is one, chosen as by `choose_draft`; an untrained one shares the target's
    weights."""
    depth = target.config.num_hidden_layers
    if choice == AUTO and folder is not None and folder.is_dir():
        return TRAINED, _load(folder, target, vocabulary)
    if choice == AUTO or choice.startswith(LAYERS):
        layers = untrained_layers(depth) if choice == AUTO else _read_layers(choice, depth)
        return LAYERS + ",".join(map(str, layers)), layer_subset(target, layers, share=True)
    if not isdir(choice):  # which, unlike Path's, says no to a name of any length
        ways = f"{AUTO}, {LOOKUP}, {NONE}, some of the target's layers as in {LAYERS}0,{depth - 1}"
        raise InputError("draft", choice[:LONGEST_SHOWN], f"{ways}, or a folder that holds a draft")
    return FOLDER + _digest(Path(choice)), _load(Path(choice), target, vocabulary)


def untrained_layers(depth: int) -> tuple[int, ...]:
    """The layers of a target of `depth` layers that draft untrained: the first two and the last, or fewer of a shallow one's,
    since all of them would cost as much as the target."""
    return (*range(min(2, depth - 2)), depth - 1)


def untrained_notice(kind: str) -> str:
    """What to know of a draft of this kind if it is untrained, else ""."""
    if not kind.startswith(LAYERS):
        return ""
    numbers = kind.removeprefix(LAYERS).replace(",", ", ")
    return f"The draft is untrained (of the target's layers: {numbers}), so few of its tokens pass: train one for speed."


def layer_subset(target: LlamaForCausalLM, layers: Sequence[int], share: bool = False) -> LlamaForCausalLM:
    """A model of the target's `layers` (in order), its embedding, its final norm and its head (PCG section 3.1).

    share: the weights are the target's own and take no memory, so they must not be trained.
    """
    config, state = _subset_config(target.config, layers), _subset_state(target, layers)
    if not share:
        draft = type(target)(config)
        draft.load_state_dict(state)
        return draft
    with torch.device("meta"):
        draft = type(target)(config)
    draft.load_state_dict(state, assign=True)
    draft.tie_weights()
    draft.model.rotary_emb = target.model.rotary_emb  # its table is computed, not loaded
    return draft.requires_grad_(False).eval()


def _subset_config(config: LlamaConfig, layers: Sequence[int]) -> LlamaConfig:
    subset = deepcopy(config)
    subset.num_hidden_layers = len(layers)
    if getattr(subset, "layer_types", None):
        subset.layer_types = [config.layer_types[i] for i in layers]
    return subset


def _subset_state(target: LlamaForCausalLM, layers: Sequence[int]) -> dict[str, Tensor]:
    whole = target.state_dict()
    state = {key: value for key, value in whole.items() if ".layers." not in key}
    for place, index in enumerate(layers):
        prefix = f"model.layers.{index}."
        for key, value in whole.items():
            if key.startswith(prefix):
                state[f"model.layers.{place}.{key[len(prefix) :]}"] = value
    return state


def _read_layers(choice: str, depth: int) -> tuple[int, ...]:
    numbers = choice.removeprefix(LAYERS)
    # Longer numbers than any depth could ever have would not even be read.
    layers = [int(n) for n in numbers.split(",")] if re.fullmatch("[0-9]{1,4}(,[0-9]{1,4})*", numbers) else []
    if not layers or sorted(set(layers)) != layers or layers[-1] >= depth:
        allowed = f"{LAYERS} and numbers from 0 to {depth - 1}, rising, with commas between them"
        raise InputError("draft", choice[:LONGEST_SHOWN], allowed)
    return tuple(layers)


def _load(folder: Path, target: LlamaForCausalLM, vocabulary: Vocabulary) -> LlamaForCausalLM:
    draft = load_llama(folder, vocabulary, target.dtype)
    known, wanted = draft.config.vocab_size, target.config.vocab_size
    if known != wanted:
        raise InputError("draft", f"a model of {known} ids", f"one of {wanted}, as the target")
    return draft.to(target.device)


def _digest(folder: Path) -> str:
    """The start of the SHA-256 of what a draft is read from, wherever it lies."""
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("config.json"), *folder.glob("*.safetensors")]):
        try:
            digest.update(f"{file.name} {content_digest(file)}\n".encode())
        except OSError as error:
            raise AssetError(f"The draft's file {file} cannot be read ({error.strerror}).") from error
    return digest.hexdigest()[:16]
