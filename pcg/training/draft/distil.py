"""A draft learns from the corpus, from its target's own samples and probabilities, or from all of these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.vocabulary import Vocabulary
from pcg.text.prompt import PromptReader
from pcg.training.data.sequences import Batch, Epochs
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.loop import Stage, learn, make_optimizers, run
from pcg.training.voice.target import speech_logits
from pcg.training.workers import Workers

PRECISIONS = ("bf16", "fp32")


@dataclass(frozen=True)
class Objective:
    """What is minimised: `ce` times the cross-entropy of a batch's tokens, `kl` times the forward KL from the target's
    probabilities of speech, and `tv` times the total variation between both, per token (LK losses: arXiv 2602.23881). own: the
    share of batches that are the target's own samples; the others are the corpus's."""

    ce: float
    kl: float
    own: float
    tv: float = 0.0

    def takes_own(self, number: int) -> bool:
        """Whether batch `number` holds own samples; the corpus's batches are spread evenly among them."""
        given = 1.0 - self.own
        return int((number + 1) * given) == int(number * given)


OBJECTIVES = {
    "ce": Objective(ce=1.0, kl=0.0, own=0.0),
    "distil": Objective(ce=0.0, kl=1.0, own=0.75),
    "both": Objective(ce=0.5, kl=0.5, own=0.5),
    "overlap": Objective(ce=0.0, kl=0.3, own=0.75, tv=1.0),
}


@dataclass(frozen=True)
class Schedule:
    """How long and in what portions: a step learns from `accumulate` batches of about `budget` tokens in each process.

    lr: of Muon; AdamW's is two thirds of it. longest: codes in a row of a batch. every: steps between two rows of the log, and
    `rows_between` rows between two trials. untrained: whether the draft is tried before the first step, too.
    """

    steps: int
    budget: int = 4096
    accumulate: int = 1
    lr: float = 3e-3
    longest: int = 800
    precision: str = "bf16"
    every: int = 50
    rows_between: int = 5
    untrained: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "budget", "accumulate", "longest"):
            if getattr(self, name) < 1:
                raise InputError(name, getattr(self, name), "a whole number from 1 up")
        if not 0 < self.lr < 1:
            raise InputError("lr", self.lr, "a number between 0 and 1")
        if self.precision not in PRECISIONS:
            raise InputError("precision", self.precision, "one of " + ", ".join(PRECISIONS))


@dataclass(frozen=True)
class Material:
    """What is learned from. `samples` may be empty where the objective takes none."""

    corpus: Sequence[TokenizedUtterance]
    samples: Sequence[TokenizedUtterance]
    reader: PromptReader
    vocabulary: Vocabulary

    def batches(self, objective: Objective, schedule: Schedule, seed: int) -> Callable[[int], Batch]:
        """Batch n of a run, the same whenever it is asked for."""

        def epochs(spoken: Sequence[TokenizedUtterance], what: str) -> Epochs:
            chained = Epochs(spoken, self.reader, self.vocabulary.codes, schedule.budget, seed, schedule.longest)
            if not chained.per_epoch:
                raise InputError(what, f"{len(spoken)} utterances", "at least two of one voice")
            return chained

        own = epochs(self.samples, "samples") if objective.own > 0 else None
        given = epochs(self.corpus, "tokens") if objective.own < 1 else None
        return lambda number: (own if objective.takes_own(number) else given).batch(number)


def train_draft(
    directory: Path,
    draft: LlamaForCausalLM,
    target: LlamaForCausalLM,
    material: Material,
    objective: Objective,
    schedule: Schedule,
    seed: int,
    workers: Workers,
    evaluate: Callable[[], dict[str, float]] | None = None,
    name: str = "draft",
) -> None:
    """Train `draft` to the last step of `schedule`; log, curve and checkpoint lie in `directory` under `name`.

    Every token of a step counts alike, in whichever batch and process it is, so several processes or accumulated batches learn
    what one large batch would have taught.
    """
    draft.to(workers.device).train()
    # On a CPU the fused kernel's backward pass is the slower one.
    draft.set_attn_implementation("eager" if workers.kind == "cpu" else "sdpa")
    target.to(workers.device).eval().requires_grad_(False)
    batch = material.batches(objective, schedule, seed)
    optimizers = make_optimizers(draft, lr=2 / 3 * schedule.lr, muon_lr=schedule.lr, weight_decay=0.0)
    losses = _Losses(draft, target, material.vocabulary, objective, workers.kind, schedule.precision)

    def step(index: int) -> dict[str, float]:
        first = (index * workers.count + workers.rank) * schedule.accumulate
        batches = [batch(first + i).to(workers.device) for i in range(schedule.accumulate)]
        return learn(batches, losses, draft, optimizers, workers)

    stage = Stage(
        name,
        directory,
        schedule.steps,
        {"draft": draft},
        optimizers,
        step,
        evaluate,
        warmup=max(1, min(100, schedule.steps // 4)),
        every=schedule.every,
        rows_between=schedule.rows_between,
        untrained=schedule.untrained,
        leads=workers.leads,
    )
    run(stage, seed)


@dataclass(frozen=True)
class _Losses:
    draft: LlamaForCausalLM
    target: LlamaForCausalLM
    vocabulary: Vocabulary
    objective: Objective
    kind: str
    precision: str

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.autocast(self.kind, torch.bfloat16, enabled=self.precision == "bf16"):
            logits, labels = speech_logits(self.draft, batch, self.vocabulary)
            with torch.no_grad():
                wanted = (
                    speech_logits(self.target, batch, self.vocabulary)[0] if self.objective.kl or self.objective.tv else None
                )
        log_p = logits.float().log_softmax(-1)
        ce = nn.functional.nll_loss(log_p, labels, reduction="sum")
        if wanted is None:
            return self.objective.ce * ce, {"ce": ce.detach()}
        q = wanted.float().softmax(-1)
        kl = nn.functional.kl_div(log_p, q, reduction="sum")
        overlap = torch.minimum(q, log_p.exp() if self.objective.tv else log_p.detach().exp()).sum()
        found = {"ce": ce.detach(), "kl": kl.detach(), "expected_acceptance": overlap.detach()}
        return self.objective.ce * ce + self.objective.kl * kl + self.objective.tv * (len(labels) - overlap), found
