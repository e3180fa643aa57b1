"""Drafts made of layers of their target: which layers they begin as, and what they learn from."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.vocabulary import Vocabulary
from pcg.settings import Settings
from pcg.synthesis.voice import layer_subset
from pcg.training.loop import Stage, learn, load_checkpoint, make_optimizers, read_log, run
from pcg.training.publish import write_draft
from pcg.training.samples import OBJECTIVES, AcceptanceTrial, Examiner, Material, Objective, Pair, Schedule, sd_and_pcg
from pcg.training.target import speech_logits
from pcg.training.tokens import Batch, used_codes

PLANS = ("pcg", "ssd")
# PCG's draft learns without distillation (section 3.1), SSD's by cross-entropy (section 2.3).
OBJECTIVE_OF = {"pcg": "ce", "ssd": "ce", "feature": "overlap"}
OTHERWISE = "distil"
FEATURE = "feature"
"""The plan that takes no layers: `pcg.training.feature_draft`."""
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


def ends(depth: int, lower: int, upper: int) -> tuple[int, ...]:
    """The lowest and the highest of `depth` layers; of a target that has no more, all of them."""
    return (*range(min(lower, depth)), *range(max(lower, depth - upper), depth))


def train_draft(
    directory: Path,
    draft: LlamaForCausalLM,
    target: LlamaForCausalLM,
    material: Material,
    objective: Objective,
    schedule: Schedule,
    seed: int,
    device: str,
    evaluate: Callable[[], dict[str, float]] | None = None,
    name: str = "draft",
) -> None:
    """Train `draft` to the last step of `schedule`; log and checkpoint lie in `directory` under `name`."""
    draft.to(device).train()
    # On a CPU the fused kernel's backward pass is the slower one.
    draft.set_attn_implementation("eager" if device == "cpu" else "sdpa")
    target.to(device).eval().requires_grad_(False)
    batch = material.batches(objective, schedule, seed)
    optimizers = make_optimizers(draft, lr=2 / 3 * schedule.lr, muon_lr=schedule.lr, weight_decay=0.0)
    losses = _Losses(draft, target, material.vocabulary, objective, device, schedule.precision)

    def step(index: int) -> dict[str, float]:
        return learn(batch(index).to(device), losses, draft, optimizers)

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


SUBSET = "subset"
BASELINES = (*PLANS, SUBSET)


def plan_of(name: str, depth: int) -> DraftPlan:
    """Of a baseline, for a target of `depth` layers; the subset is the lowest and the highest of them."""
    return DraftPlan(ends(depth, 1, 1)) if name == SUBSET else DraftPlan.read(name, depth)


def _objective(name: str) -> Objective:
    return OBJECTIVES[OBJECTIVE_OF.get(name, OTHERWISE)]


def train_baselines(
    directory: Path,
    target: LlamaForCausalLM,
    material: Material,
    pairs: Sequence[Pair],
    schedule: Schedule,
    temperature: float,
    seed: int,
    device: str,
) -> None:
    """Train each of BASELINES to the last step of `schedule`; checkpoints and logs lie in `directory` by their names. What the
    engine accepts of them on `pairs` at `temperature` is logged on the way."""
    settings = Settings(temperature=temperature, seed=seed)
    used = used_codes(material.corpus, material.vocabulary.codes) > 0
    rules = sd_and_pcg(target, material.vocabulary, used, settings.theta)
    examiner = Examiner(target, AcceptanceTrial(pairs, material.reader, material.vocabulary, rules, settings))
    for name in BASELINES:
        draft = new_draft(target, plan_of(name, target.config.num_hidden_layers))

        def evaluate(draft: LlamaForCausalLM = draft) -> dict[str, float]:
            return examiner.figures(draft)

        asked = (_objective(name), schedule, seed, device, evaluate, name)
        train_draft(directory, draft, target, material, *asked)


def write_baselines(out: Path, directory: Path, target: LlamaForCausalLM) -> None:
    """Put the baselines that are trained in `directory` beside the voice's own draft, each as `draft-NAME`."""
    for name in BASELINES:
        saved = directory / f"{name}.safetensors"
        if not saved.exists():
            continue
        plan = plan_of(name, target.config.num_hidden_layers)
        draft = new_draft(target, plan)
        step = load_checkpoint(saved, {"draft": draft}, {})["step"]
        rows = read_log(directory / f"{name}.jsonl")
        held_out = {key: value for row in rows for key, value in row.items() if key.startswith("held_out")}
        facts = {"plan": asdict(plan), "objective": asdict(_objective(name)), "steps": int(step), "acceptance": held_out}
        with torch.no_grad():
            write_draft(out / f"draft-{name}", draft, facts)
