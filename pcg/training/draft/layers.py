"""How a draft is cut from its target: which layers it begins as, and what of it learns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.files import write_json
from pcg.synthesis.drafts import layer_subset
from pcg.training.draft.feature import FeatureModel
from pcg.training.voice.publish import write_feature, write_llama

PLANS = ("pcg", "ssd")
# PCG's draft learns without distillation (section 3.1), SSD's by cross-entropy (section 2.3).
OBJECTIVE_OF = {"pcg": "ce", "ssd": "ce", "feature": "overlap"}
OTHERWISE = "distil"
FEATURE = "feature"
"""The plan that takes no layers: `pcg.training.draft.feature`."""
EVERY_LAYER = "the numbers of some of its layers, lowest first, as in 0,{last}"


@dataclass(frozen=True)
class DraftPlan:
    """layers: of the target, in order. trained: which of the draft's own layers learn, counted from its lowest; None: every
    weight learns. head: whether the LM head learns, too, where `trained` names layers; the embedding and the final norm then
    stay as they are."""

    layers: tuple[int, ...]
    trained: tuple[int, ...] | None = None
    head: bool = True

    @classmethod
    def pcg(cls, depth: int) -> "DraftPlan":
        """Three layers, and every weight learns (PCG section 3.1).

        The paper does not say which three. It follows SSD, which takes a quarter of its draft from the bottom and the rest from
        the top: of three, that is the lowest and the upper two.
        """
        return cls(ends(depth, 1, 2))

    @classmethod
    def ssd(cls, depth: int) -> "DraftPlan":
        """The lower two and the upper six layers; the first two and the head learn (SSD sections 2.3 and 3.1)."""
        return cls(ends(depth, 2, 6), trained=(0, 1))

    @classmethod
    def read(cls, words: str, depth: int) -> "DraftPlan":
        """A plan for a target of `depth` layers: "pcg", "ssd", or layers as in "0,1,27", of which every weight learns."""
        if words in PLANS:
            return {"pcg": cls.pcg, "ssd": cls.ssd}[words](depth)
        numbers = [int(n) for n in words.split(",") if n.isascii() and n.isdigit() and len(n) < 5]
        if len(numbers) != words.count(",") + 1 or sorted(set(numbers)) != numbers or numbers[-1] >= depth:
            raise InputError("plan", words[:40], ", ".join((*PLANS, FEATURE)) + ", or " + EVERY_LAYER.format(last=depth - 1))
        return cls(tuple(numbers))


def new_draft(target: LlamaForCausalLM, plan: DraftPlan) -> LlamaForCausalLM:
    """The untrained draft that `plan` asks for, in the target's weights; what shall not learn is frozen.

    A tied head that learns while the embedding stays is no longer tied. Whether target and draft are tied is told by their
    weights: a config may lie.
    """
    draft = layer_subset(target, plan.layers)
    head, embedding = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    apart = plan.trained is not None and plan.head
    if apart or head is not embedding:
        draft.config.tie_word_embeddings = False
        draft.lm_head.weight = nn.Parameter(head.detach().clone())
        draft.get_input_embeddings().weight = nn.Parameter(embedding.detach().clone())
    if plan.trained is not None:
        draft.requires_grad_(False)
        for place in plan.trained:
            draft.model.layers[place].requires_grad_(True)
        draft.lm_head.requires_grad_(plan.head)
    return draft


def write_draft(folder: Path, draft: LlamaForCausalLM, facts: Mapping[str, object]) -> None:
    """Write the folder of a trained draft, which `load_voice(..., draft=folder)` reads, with `facts` on how it was made."""
    write_llama(folder, draft)
    write_json(folder / "draft.json", facts)


def write_feature_draft(folder: Path, draft: FeatureModel, facts: Mapping[str, object]) -> None:
    """As `write_draft`, of a feature draft."""
    write_feature(folder, draft)
    write_json(folder / "draft.json", facts)


def ends(depth: int, lower: int, upper: int) -> tuple[int, ...]:
    """The lowest and the highest of `depth` layers; of a target that has no more, all of them."""
    return (*range(min(lower, depth)), *range(max(lower, depth - upper), depth))
