"""How a feature draft learns: it starts from least squares, and is unrolled against its target's probabilities."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.feature_draft import unit
from pcg.training.data.sequences import IGNORED, Batch, collate, make_row
from pcg.training.draft.acceptance import Pair, draw_pairs
from pcg.training.draft.distil import Material, Objective, Schedule
from pcg.training.draft.divergence import divergence
from pcg.training.draft.feature import FeatureModel, TapPlaces, later
from pcg.training.llama import tapped_states
from pcg.training.loop import Stage, learn, make_optimizers, run
from pcg.training.workers import Workers

UNROLLED = (1.0, 0.7, 0.5)
"""What each step of the unrolled draft weighs."""
ROWS_AT_ONCE = 8
RIDGE = 1e-3
ROWS_PER_WEIGHT = 24
"""Positions that the least squares see, for each of their inputs."""
DECAY_SHARE = 0.8
"""The rate falls for most of the steps: a draft's overlap hardly rises until its rate falls."""


@contextmanager
def tapping(target: LlamaForCausalLM, layers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """Within it, a pass of `target` leaves the hidden states behind `layers` (counted from 1) here, by layer."""
    found: dict[int, Tensor] = {}

    def keep(number: int, _module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        found[number] = output if isinstance(output, Tensor) else output[0]

    handles = [target.model.layers[n - 1].register_forward_hook(partial(keep, n)) for n in layers]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def read_target(target: LlamaForCausalLM, batch: Batch, tapped: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What the target thinks of `batch`: its hidden states behind the layers `tapped`, `[B, S, layers, D]`, and what its head
    multiplies, `[B, S, D]`."""
    plain = target.device.type == "cpu" and target.model.layers[0].self_attn.q_proj.bias is None
    if plain and torch.is_autocast_enabled("cpu"):
        found, last = tapped_states(target, batch.ids, batch.positions, tapped)
        return torch.stack([found[layer] for layer in tapped], 2), last
    mask = torch.ones_like(batch.ids)  # see `speech_logits`
    with tapping(target, tapped) as found:
        last = target.model(batch.ids, attention_mask=mask, position_ids=batch.positions, use_cache=False).last_hidden_state
    return torch.stack([found[layer] for layer in tapped], 2), last


@torch.no_grad()
def start_from(model: FeatureModel, target: LlamaForCausalLM, batches: Iterable[Batch]) -> float:
    """Let the inputs be the best linear guess of the target's last hidden state: from the taps and the token by least squares,
    then from that state itself. Returns the share of its variance that the first explains."""
    width, depth = model.shape.hidden_size, model.shape.num_target_layers
    tapped = (*model.shape.tapped_layers, *(() if depth in model.shape.tapped_layers else (depth,)))
    inputs = len(tapped) * width + width
    xx, xy, yy = (torch.zeros(inputs, n, dtype=torch.float64, device=target.device) for n in (inputs, width, 1))
    for batch in batches:
        states, places = unit(read_target(target, batch, tapped)[0].float()), TapPlaces.of(batch)
        before = later(states, 1, 1).flatten(-2)
        token = F.embedding(batch.ids, model.embedding)
        x = places.pick(torch.cat([before, token], -1))[places.real]
        y = places.pick(states[:, :, tapped.index(depth)])[places.real]
        with torch.autocast(x.device.type, enabled=False):  # rounded sums would not be those of any regression
            xx += x.T @ x
            xy += x.T @ y
        yy[0] += (y * y).sum()
    ridge = RIDGE * xx.diagonal().mean()
    seen = [*range(len(model.shape.tapped_layers) * width), *range(inputs - width, inputs)]
    first = _solve(xx, xy, seen, ridge)
    model.features.weight.copy_(first[:-width].T)
    model.token.weight.copy_(first[-width:].T)
    last = [tapped.index(depth) * width + i for i in range(width)]
    rest = xy - xx[:, -width:] @ first[-width:]
    model.state.weight.copy_(_solve(xx, rest, last, ridge).T)
    explained = 2 * (first * xy[seen]).sum() - (first * (xx[seen][:, seen] @ first)).sum()
    return float(explained / yy[0])


def _solve(xx: Tensor, xy: Tensor, inputs: Sequence[int], ridge: Tensor) -> Tensor:
    """Ridge regression on some of the inputs."""
    chosen = xx[inputs][:, inputs]
    return torch.linalg.solve(chosen + ridge * torch.eye(len(inputs), dtype=chosen.dtype, device=chosen.device), xy[inputs])


@dataclass(frozen=True)
class Unrolled:
    """The loss of a batch, summed over its tokens: KL and total variation, as `objective` weighs them, from the target's
    probabilities at `temperature`, of steps that count as `weights`; and the overlap of each step with the target."""

    model: FeatureModel
    target: LlamaForCausalLM
    objective: Objective
    temperature: float
    precision: str = "bf16"
    weights: tuple[float, ...] = UNROLLED

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        places, kind = TapPlaces.of(batch), self.target.device.type
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        with torch.autocast(kind, torch.bfloat16, enabled=dtype == torch.bfloat16):
            taps, wanted = read_target(self.target, batch, self.model.shape.tapped_layers)
            states = self.model.unroll(batch, taps, places, len(self.weights))
            hidden = torch.stack([self.model.hidden(each[places.real]) for each in states])
        # A draft's k-th token has k - 1 drafted ones before it.
        depth = torch.arange(places.slots.shape[1], device=hidden.device).expand_as(places.slots)[places.real]
        counts = torch.stack([depth >= step for step in range(len(self.weights))]).float()
        weights = counts * torch.tensor(self.weights, device=hidden.device)[:, None]
        wanted = places.pick(wanted)[places.real]
        loss, overlap = divergence(
            hidden.to(dtype), self.model.head.to(dtype), wanted.to(dtype), self.model.speech_head.to(dtype), weights,
            self.objective.kl, self.objective.tv, self.temperature,
        )  # fmt: skip
        means = (overlap * counts).sum(1) / counts.sum(1).clamp(min=1)
        found = {f"overlap_{step}": mean * len(wanted) for step, mean in enumerate(means, 1)}
        return loss, {"loss": loss.detach()} | found

    @torch.no_grad()
    def overlaps(self, batches: Sequence[Batch]) -> dict[str, float]:
        """The mean of sum min(p, q) at each step, over the positions of `batches`: the chance that a token drawn from p there
        passes exact speculative decoding."""
        sums: dict[str, float] = {}
        for batch in batches:
            for name, value in self(batch)[1].items():
                sums[name] = sums.get(name, 0.0) + float(value)
        tokens = sum(int((batch.labels != IGNORED).sum()) for batch in batches)
        return {name: value / tokens for name, value in sums.items() if name != "loss"}


def hold_out(material: Material, pairs: Sequence[Pair], count: int, seed: int) -> tuple[Material, list[Batch]]:
    """What is left to learn from when `count` pairs of own samples are held out, or a tenth of them, and the rows of these
    pairs; where the target said nothing itself, the rows of `pairs` of the corpus."""
    held = draw_pairs(material.samples, min(count, len(material.samples) // 20), seed) or pairs
    gone = {id(spoken) for pair in held for spoken in pair}
    left = replace(material, samples=[spoken for spoken in material.samples if id(spoken) not in gone])
    rows = [make_row(pair, material.reader, material.vocabulary.codes) for pair in held]
    return left, [collate(rows[first : first + ROWS_AT_ONCE]) for first in range(0, len(rows), ROWS_AT_ONCE)]


def train_feature(
    directory: Path,
    model: FeatureModel,
    target: LlamaForCausalLM,
    material: Material,
    objective: Objective,
    schedule: Schedule,
    temperature: float,
    seed: int,
    workers: Workers,
    held_out: Sequence[Batch] = (),
    name: str = "draft",
) -> dict[str, float]:
    """Train `model` to the last step of `schedule`, as `distil.train_draft` does; return the overlaps of its steps
    on the rows `held_out`.

    A new run begins at the least squares. `temperature`: of the target's probabilities, which should be that in use.
    """
    if objective.ce or not objective.kl + objective.tv > 0:
        raise InputError("objective", "one with cross-entropy", "distil or overlap, where the plan is feature")
    model.to(workers.device).train()
    target.to(workers.device).eval().requires_grad_(False)
    batch = material.batches(objective, schedule, seed)
    losses = Unrolled(model, target, objective, temperature, schedule.precision)
    checked = [each.to(workers.device) for each in held_out]
    optimizers = make_optimizers(model, lr=2 / 3 * schedule.lr, muon_lr=schedule.lr, weight_decay=0.0)

    def step(index: int) -> dict[str, float]:
        first = (index * workers.count + workers.rank) * schedule.accumulate
        batches = [batch(first + i).to(workers.device) for i in range(schedule.accumulate)]
        return learn(batches, losses, model, optimizers, workers)

    stage = Stage(
        name,
        directory,
        schedule.steps,
        {"draft": model},
        optimizers,
        step,
        (lambda: losses.overlaps(checked)) if checked else None,
        warmup=max(1, min(30, schedule.steps // 4)),
        decay_share=DECAY_SHARE,
        every=schedule.every,
        rows_between=schedule.rows_between,
        untrained=schedule.untrained,
        leads=workers.leads,
    )
    if not stage.checkpoint.exists():
        _start(model, target, batch, schedule, workers)
    run(stage, seed)
    return losses.overlaps(checked) if checked else {}


def _start(
    model: FeatureModel, target: LlamaForCausalLM, batch: Callable[[int], Batch], schedule: Schedule, workers: Workers
) -> None:
    inputs = (len(model.shape.tapped_layers) + 1) * model.shape.hidden_size
    count = -(-ROWS_PER_WEIGHT * inputs // schedule.budget)
    with torch.autocast(workers.kind, torch.bfloat16, enabled=schedule.precision == "bf16"):
        explained = start_from(model, target, (batch(i).to(workers.device) for i in range(count)))
    if workers.leads:
        print(f"draft: least squares explain {explained:.3f} of the target's last hidden states", flush=True)
