"""Drafts made of layers of their target: which layers they begin as, which weights learn, and their loss."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import layer_subset
from pcg.training.target import speech_logits
from pcg.training.tokens import Batch

NAMED_PLANS = ("pcg", "ssd", "subset")


@dataclass(frozen=True)
class Objective:
    """What is minimised: `ce` times the cross-entropy of a batch's tokens, `kl` times the forward KL from the target's
    probabilities of speech, and `tv` times the total variation between both, per token (LK losses: arXiv 2602.23881).

    own: the share of batches that are the target's own samples; the others are the corpus's.
    """

    ce: float
    kl: float
    own: float
    tv: float = 0.0

    def takes_own(self, number: int) -> bool:
        """Return whether batch `number` holds own samples; the corpus's batches are spread evenly among them."""
        given = 1.0 - self.own
        return int((number + 1) * given) == int(number * given)


OBJECTIVES = {
    "ce": Objective(ce=1.0, kl=0.0, own=0.0),
    "distil": Objective(ce=0.0, kl=1.0, own=0.75),
    "overlap": Objective(ce=0.0, kl=0.3, own=0.75, tv=1.0),
}


@dataclass(frozen=True)
class DraftPlan:
    """layers: of the target, in order. trained: which of the draft's own layers learn, counted from its lowest, with the LM
    head; None: every weight learns."""

    layers: tuple[int, ...]
    trained: tuple[int, ...] | None = None

    @classmethod
    def read(cls, words: str, depth: int) -> "DraftPlan":
        """Read a plan for a target of `depth` layers.

        "pcg": three layers, and every weight learns (PCG section 3.1). The paper does not say which three. It follows SSD,
        which takes a quarter of its draft from the bottom and the rest from the top: of three, the lowest and the upper two.
        "ssd": the lower two and the upper six layers; the first two and the head learn (SSD sections 2.3 and 3.1).
        "subset": the lowest and the highest layer. Or numbers of layers as in "0,1,27", of which every weight learns.
        """
        if words in NAMED_PLANS:
            lower, upper = {"pcg": (1, 2), "ssd": (2, 6), "subset": (1, 1)}[words]
            layers = (*range(min(lower, depth)), *range(max(lower, depth - upper), depth))
            return cls(layers, trained=(0, 1) if words == "ssd" else None)
        numbers = [int(n) for n in words.split(",") if n.isascii() and n.isdigit() and len(n) < 5]
        if len(numbers) != words.count(",") + 1 or sorted(set(numbers)) != numbers or numbers[-1] >= depth:
            plans = f"feature, {', '.join(NAMED_PLANS)}"
            raise InputError("plan", words[:40], f"{plans}, or numbers of layers, lowest first, as in 0,{depth - 1}")
        return cls(tuple(numbers))


def new_draft(target: LlamaForCausalLM, plan: DraftPlan) -> LlamaForCausalLM:
    """Return the untrained draft of `plan` with the target's weights; weights that do not learn are frozen.

    A tied head that learns while the embedding stays is no longer tied. The weights, and not the config, say whether target and
    draft are tied: a config may be wrong.
    """
    draft = layer_subset(target, plan.layers)
    head, embedding = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    if plan.trained is not None or head is not embedding:
        draft.config.tie_word_embeddings = False
        draft.lm_head.weight = nn.Parameter(head.detach().clone())
        draft.get_input_embeddings().weight = nn.Parameter(embedding.detach().clone())
    if plan.trained is not None:
        draft.requires_grad_(False)
        learned: Sequence[nn.Module] = [draft.lm_head, *(draft.model.layers[place] for place in plan.trained)]
        for module in learned:
            module.requires_grad_(True)
    return draft


@dataclass(frozen=True)
class LayerLoss:
    """The loss of a batch, summed over its tokens, and the sums of the figures that are logged."""

    draft: LlamaForCausalLM
    target: LlamaForCausalLM
    vocabulary: Vocabulary
    objective: Objective
    precision: str

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        distils = self.objective.kl > 0 or self.objective.tv > 0
        with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            logits, labels = speech_logits(self.draft, batch, self.vocabulary)
            with torch.no_grad():
                wanted = speech_logits(self.target, batch, self.vocabulary)[0] if distils else None
        log_p = logits.float().log_softmax(-1)
        ce = nn.functional.nll_loss(log_p, labels, reduction="sum")
        if wanted is None:
            return self.objective.ce * ce, {"ce": ce.detach()}
        q = wanted.float().softmax(-1)
        kl = nn.functional.kl_div(log_p, q, reduction="sum")
        overlap = torch.minimum(q, log_p.exp()).sum()
        figures = {"ce": ce.detach(), "kl": kl.detach(), "expected_acceptance": overlap.detach()}
        loss = self.objective.ce * ce + self.objective.kl * kl + self.objective.tv * (len(labels) - overlap)
        return loss, figures
