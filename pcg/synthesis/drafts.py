"""Which draft speaks along with a target: a trained one, layers of the target itself, what was said before, or none."""

import hashlib
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.decode.lookup import PromptLookup
from pcg.errors import AssetError, InputError
from pcg.files.checksums import check_checksums
from pcg.models.checkpoint import Checkpoint
from pcg.models.feature_draft import FeatureDraft, is_feature_draft, read_feature_draft
from pcg.models.hub import content_digest
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import read_checkpoint

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM

AUTO, TRAINED, LOOKUP, NONE = "auto", "trained", "lookup", "none"
LAYERS, FOLDER = "layers:", "folder:"
NAMED = "draft-"
NAME = "[a-z0-9-]{1,40}"
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
    model: DecodingLlama | FeatureDraft | PromptLookup | None
    notice: str


def choose_draft(choice: str, target: Checkpoint, vocabulary: Vocabulary, folder: Path | None, rounded: bool = False) -> Draft:
    """The draft that `choice` asks for, on the device and in the type of `target`. rounded: see `DecodingLlama`.

    choice: "auto" (the trained draft in `folder` if that is there, else three layers of the target), "layers:0,1,27", "lookup",
    "none", NAME for `draft-NAME/` beside `folder`, or a folder that holds a trained draft. Raises InputError for anything else
    and for a draft of other ids or of another shape than the target's, AssetError for a damaged one.
    """
    if choice == NONE:
        return Draft(NONE, None, NO_DRAFT)
    if choice == LOOKUP:
        return Draft(LOOKUP, PromptLookup(vocabulary), COPIES)
    origin = find_draft(choice, target.layers, folder)
    if not isinstance(origin, Path):
        kind = LAYERS + ",".join(map(str, origin))
        return Draft(kind, DecodingLlama(target.subset(origin), vocabulary, rounded=rounded), untrained_notice(kind))
    named = named_draft(choice, folder)
    kind = TRAINED if origin == folder else choice if named else FOLDER + _digest(origin)
    if kind.startswith(FOLDER):  # the voice's own came with it
        check_checksums(origin)
    if is_feature_draft(origin):
        return Draft(kind, read_feature_draft(origin, target, vocabulary, rounded), "")
    draft = read_checkpoint(origin, vocabulary, target.embedding.dtype)
    known, wanted = len(draft.embedding), len(target.embedding)
    if known != wanted:
        raise InputError("draft", f"a model of {known} ids", f"one of {wanted}, as the target")
    return Draft(kind, DecodingLlama(draft.to(target.embedding.device), vocabulary, rounded=rounded), "")


def find_draft(choice: str, depth: int, folder: Path | None) -> Path | tuple[int, ...]:
    """Where the model of a draft that is one lies, chosen as by `choose_draft`: a folder, or layers of a target of `depth`."""
    if choice == AUTO and folder is not None and folder.is_dir():
        return folder
    if choice == AUTO:
        return untrained_layers(depth)
    if choice.startswith(LAYERS):
        return _read_layers(choice, depth)
    if named := named_draft(choice, folder):
        return named
    if not isdir(choice):  # which, unlike Path's, says no to a name of any length
        ways = ", ".join([AUTO, *names_beside(folder), LOOKUP, NONE])
        layers = f"some of the target's layers as in {LAYERS}0,{depth - 1}"
        raise InputError("draft", choice[:LONGEST_SHOWN], f"{ways}, {layers}, or a folder that holds a draft")
    return Path(choice)


def named_draft(choice: str, folder: Path | None) -> Path | None:
    """The folder of the draft that goes by the name `choice`, where one lies beside the voice's own in `folder`.

    A name comes before a folder of the same name elsewhere, so that what is chosen does not depend on where a command runs.
    """
    if folder is None or choice in (AUTO, TRAINED, LOOKUP, NONE) or not re.fullmatch(NAME, choice):
        return None
    named = folder.with_name(NAMED + choice)
    return named if named.is_dir() else None


def names_beside(folder: Path | None) -> list[str]:
    """The names by which the further drafts of a voice are chosen, whose own one lies, or would lie, in `folder`."""
    found = folder.parent.glob(f"{NAMED}*") if folder is not None else ()
    return sorted(name for each in found if named_draft(name := each.name.removeprefix(NAMED), folder))


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


def layer_subset(target: "LlamaForCausalLM", layers: Sequence[int]) -> "LlamaForCausalLM":
    """A copy of the target's `layers` (in order), its embedding, its final norm and its head, to be trained (PCG 3.1)."""
    draft = type(target)(_subset_config(target.config, layers))
    draft.load_state_dict(dict(Checkpoint.of(target).subset(layers).tensors))
    return draft


def _subset_config(config: "LlamaConfig", layers: Sequence[int]) -> "LlamaConfig":
    subset = deepcopy(config)
    subset.num_hidden_layers = len(layers)
    if getattr(subset, "layer_types", None):
        subset.layer_types = [config.layer_types[i] for i in layers]
    return subset


def _read_layers(choice: str, depth: int) -> tuple[int, ...]:
    numbers = choice.removeprefix(LAYERS)
    # Longer numbers than any depth could ever have would not even be read.
    layers = [int(n) for n in numbers.split(",")] if re.fullmatch("[0-9]{1,4}(,[0-9]{1,4})*", numbers) else []
    if not layers or sorted(set(layers)) != layers or layers[-1] >= depth:
        allowed = f"{LAYERS} and numbers from 0 to {depth - 1}, rising, with commas between them"
        raise InputError("draft", choice[:LONGEST_SHOWN], allowed)
    return tuple(layers)


def _digest(folder: Path) -> str:
    """The start of the SHA-256 of what a draft is read from, wherever it lies."""
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("config.json"), *folder.glob("*.safetensors")]):
        try:
            digest.update(f"{file.name} {content_digest(file)}\n".encode())
        except OSError as error:
            raise AssetError(f"The draft's file {file} cannot be read ({error.strerror}).") from error
    return digest.hexdigest()[:16]
