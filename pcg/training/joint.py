"""Stage `target`: target and draft learn together, and the draft's loss goes on through the layers that it reads.

The target learns the next speech code by cross-entropy. The draft learns to agree with it over its unrolled steps, and that
gradient reaches the target through its taps (multi-token prediction, as in DeepSeek-V3, arXiv 2412.19437, section 2.2), so that
the target says early what its draft has to know. The target's probabilities are no part of the draft's gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.feature_draft import unit
from pcg.models.vocabulary import Vocabulary
from pcg.text.prompt import PhonemeReader
from pcg.training.feature_draft import FeatureModel, read_target, unrolled_divergence
from pcg.training.loop import Stage, generator, learn, make_optimizers, run
from pcg.training.tokens import IGNORED, Batch, Epochs, TokenizedUtterance

DRAFT_SHARE, KL, TV = 0.3, 0.6, 0.6
LONGEST = 720
"""Speech codes in a row of a batch."""
MISHEARD_ROWS, MISHEARD_CODES = 0.5, 1 / 8
"""So many rows hear up to this share of their codes wrongly, with true labels: a swapped code or a slip is forgiven."""


@dataclass(frozen=True)
class JointLoss:
    """The loss of a batch, summed over its learned tokens: cross-entropy of the target plus DRAFT_SHARE of the draft's
    divergence over its unrolled steps."""

    target: LlamaForCausalLM
    draft: FeatureModel
    vocabulary: Vocabulary

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.autocast(batch.ids.device.type, torch.bfloat16):
            taps, last = read_target(self.target, batch, self.draft.shape.tapped_layers)
        learned = batch.labels != IGNORED
        head = self.target.get_output_embeddings().weight[self.vocabulary.model_ids().to(self.target.device)]
        logits = F.linear(last[learned], head.to(last.dtype)).float()
        labels = batch.labels[learned]
        loss = F.cross_entropy(logits, labels, reduction="sum")
        self.draft.embedding = unit(self.target.get_input_embeddings().weight.detach().float())
        divergent, overlaps = unrolled_divergence(self.draft, batch, taps, last, head, KL, TV, 1.0, last.dtype)
        figures = {"loss": loss.detach(), "top1": (logits.argmax(-1) == labels).sum()}
        return loss + DRAFT_SHARE * divergent, figures | overlaps


def train_jointly(
    directory: Path,
    target: LlamaForCausalLM,
    draft: FeatureModel,
    train: Sequence[TokenizedUtterance],
    held_out: dict[str, Sequence[TokenizedUtterance]],
    reader: PhonemeReader,
    vocabulary: Vocabulary,
    steps: int,
    seed: int,
    device: str,
    budget: int,
    decay_share: float = 0.4,
) -> None:
    """Train target and draft in place; log loss, top-1 and overlaps, and those of each `held_out` set.

    Raises:
        InputError: if a split holds fewer than two utterances of one voice.
    """
    both = nn.ModuleDict({"target": target, "draft": draft}).to(device)
    epochs = Epochs(train, reader, vocabulary.codes, budget, seed, LONGEST)
    checks = {name: Epochs(spoken, reader, vocabulary.codes, budget, 0, LONGEST) for name, spoken in held_out.items()}
    for name, split in {"train": epochs, **checks}.items():
        if not split.per_epoch:
            raise InputError(f"the corpus's split {name}", "too small", "at least two utterances of one voice")
    optimizers = make_optimizers(both, lr=3e-3, muon_lr=3e-3, weight_decay=0.1)
    losses = JointLoss(target, draft, vocabulary)
    print(f"target: {sum(p.numel() for p in target.parameters())} parameters, {epochs.per_epoch} batches an epoch", flush=True)

    def step(index: int) -> dict[str, float]:
        batch = misheard(epochs.batch(index), vocabulary, generator(seed + 1, index))
        return learn(batch.to(device), losses, both, optimizers)

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        figures: dict[str, float] = {}
        for name, check in checks.items():
            sums: dict[str, float] = {}
            batches = [check.batch(index).to(device) for index in range(min(4, check.per_epoch))]
            for batch in batches:
                for figure, value in losses(batch)[1].items():
                    sums[figure] = sums.get(figure, 0.0) + float(value)
            tokens = sum(int((batch.labels != IGNORED).sum()) for batch in batches)
            figures |= {f"{name}_{figure}": value / tokens for figure, value in sums.items()}
        return figures

    modules: dict[str, nn.Module] = {"target": target, "draft": draft}
    run(Stage("target", directory, steps, modules, optimizers, step, evaluate, decay_share=decay_share, every=50))


def misheard(batch: Batch, vocabulary: Vocabulary, rng: torch.Generator) -> Batch:
    """Replace some of the speech codes that rows of `batch` hear by others; the labels stay true."""
    rows, length = batch.ids.shape
    share = torch.rand(rows, 1, generator=rng) * MISHEARD_CODES * (torch.rand(rows, 1, generator=rng) < MISHEARD_ROWS)
    first = vocabulary.first_code
    speech = (batch.ids >= first) & (batch.ids < first + vocabulary.codes)
    wrong = speech & (torch.rand(rows, length, generator=rng) < share)
    codes = torch.randint(vocabulary.codes, (rows, length), generator=rng) + first
    return replace(batch, ids=torch.where(wrong, codes, batch.ids))


@torch.no_grad()
def average(module: nn.Module, start: dict[str, Tensor], share: float) -> None:
    """Move the weights of `module` towards `start`, a state of the same shape: `share` of it, 1 - `share` of what is there.

    The average of a run's end and its start has a lower held-out loss than either.
    """
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            tensor.lerp_(start[name].to(tensor), share)
