"""One training loop for every stage: schedule, log, curve picture, checkpoints, resume."""

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from pcg.files import replacing
from pcg.training import checkpoint
from pcg.training.data.sequences import IGNORED, Batch
from pcg.training.workers import Workers

# Parts that map from or to something outside the network; "encoder" and "decoder" are none of them.
OUTER = re.compile(r"(^|[._])(embed|head|code|patch)")


@dataclass(frozen=True)
class Stage:
    """One stage of training. `step(index)` runs one update and returns its losses; it draws its batch from `index`, so a
    resumed run sees the batches that it would have seen.

    evaluate: figures of what is trained, taken once in `rows_between` rows of the log, after the last step, and, where
    `untrained`, before the first. leads: whether this process keeps log and checkpoint; of several that train together, one.
    """

    name: str
    directory: Path
    steps: int
    modules: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    step: Callable[[int], dict[str, float]]
    evaluate: Callable[[], dict[str, float]] | None = None
    warmup: int = 100
    decay_share: float = 0.4
    every: int = 100
    rows_between: int = 5
    untrained: bool = False
    leads: bool = True

    @property
    def checkpoint(self) -> Path:
        return self.directory / f"{self.name}.safetensors"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.jsonl"


def run(stage: Stage, seed: int) -> None:
    """Train `stage` to its last step, from its checkpoint if there is one."""
    base = {name: [g["lr"] for g in o.param_groups] for name, o in stage.optimizers.items()}
    done, seconds = 0, 0.0
    if stage.checkpoint.exists():
        meta = checkpoint.load(stage.checkpoint, stage.modules, stage.optimizers)
        done, seconds = int(meta["step"]), float(meta["seconds"])
    if done >= stage.steps:
        return
    sums: dict[str, float] = {}
    begun = time.monotonic()
    if stage.untrained and stage.leads and not done:
        _note(stage, {"step": 0, "seconds": 0.0} | _held_out(stage))
    for index in range(done, stage.steps):
        factor = learning_rate_factor(index, stage.steps, stage.warmup, stage.decay_share)
        for name, optimizer in stage.optimizers.items():
            for group, lr in zip(optimizer.param_groups, base[name], strict=True):
                group["lr"] = lr * factor
        for key, value in stage.step(index).items():
            sums[key] = sums.get(key, 0.0) + value
        step = index + 1
        if stage.leads and (step % stage.every == 0 or step == stage.steps):
            count = min(step - done, (step - 1) % stage.every + 1)
            elapsed = seconds + time.monotonic() - begun
            row = {"step": step, "seconds": round(elapsed, 1)} | {k: round(v / count, 5) for k, v in sums.items()}
            if step % (stage.rows_between * stage.every) == 0 or step == stage.steps:
                row |= _held_out(stage)
            sums = {}
            _note(stage, row)
            meta = {"step": step, "seconds": elapsed, "seed": seed, "steps": stage.steps}
            checkpoint.save(stage.checkpoint, stage.modules, stage.optimizers, meta)
    if stage.leads:
        draw_curve(stage.log)


def learning_rate_factor(index: int, steps: int, warmup: int, decay_share: float) -> float:
    """Linear warm-up, constant, then linear to zero over the last `decay_share` of the steps."""
    return min(1.0, (index + 1) / warmup, max(0.0, (steps - index) / max(1.0, decay_share * steps)))


def make_optimizers(module: nn.Module, lr: float, muon_lr: float, weight_decay: float = 0.05) -> dict[str, Optimizer]:
    """Muon for the matrices inside the network; AdamW for embeddings, heads, convolutions, gains and biases. Frozen weights
    are left out."""
    matrices, rest = [], []
    for name, parameter in ((n, p) for n, p in module.named_parameters() if p.requires_grad):
        is_matrix = parameter.ndim == 2 and not OUTER.search(name)
        (matrices if is_matrix else rest).append(parameter)
    muon = Muon(matrices, lr=muon_lr, weight_decay=weight_decay, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    return {"muon": muon, "adamw": AdamW(rest, lr=lr, betas=(0.9, 0.95), weight_decay=0.0)}


def update(loss: Tensor, module: nn.Module, optimizers: Iterable[Optimizer]) -> None:
    """One step down the gradient of `loss`, clipped to norm 1 over `module`."""
    chosen = list(optimizers)
    for optimizer in chosen:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    descend(module, chosen)


def descend(module: nn.Module, optimizers: Iterable[Optimizer]) -> None:
    """One step down the gradients that `module` has, clipped to norm 1."""
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()


Losses = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]
"""The loss of a batch, summed over its tokens, and the sums of the figures that are logged."""


def learn(
    batches: Sequence[Batch],
    losses: Losses,
    module: nn.Module,
    optimizers: dict[str, Optimizer],
    workers: Workers,
) -> dict[str, float]:
    """One step down the mean loss of the tokens in all processes' `batches`; the means of the figures."""
    tokens = workers.add(torch.stack([(b.labels != IGNORED).sum() for b in batches]).sum())
    for optimizer in optimizers.values():
        optimizer.zero_grad(set_to_none=True)
    sums: dict[str, Tensor] = {}
    for each in batches:
        loss, found = losses(each)
        (loss / tokens).backward()
        sums = {name: sums.get(name, 0.0) + value for name, value in found.items()}
    if workers.count > 1:
        for weight in (w for w in module.parameters() if w.grad is not None):
            weight.grad = workers.add(weight.grad)
    descend(module, optimizers.values())
    return {name: float(workers.add(value) / tokens) for name, value in sums.items()}


def generator(seed: int, index: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + index)


def read_log(log: Path) -> list[dict[str, float]]:
    """The rows of a stage's log; one that a killed run left half written is passed over."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def draw_curve(log: Path) -> None:
    """Draw every loss in `log` against the steps, as a picture beside it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = read_log(log)
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for key in sorted({k for row in rows for k in row} - {"step", "seconds"}):
        points = [(row["step"], row[key]) for row in rows if key in row]
        axes.plot(*zip(*points, strict=True), label=key, marker="o" if key.startswith("held_out") else None, markersize=3)
    axes.set(xlabel="steps", ylabel="loss", title=log.stem)
    axes.grid(alpha=0.3)
    axes.legend()
    with replacing(log.with_suffix(".png")) as temporary:
        figure.savefig(temporary, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def _held_out(stage: Stage) -> dict[str, float]:
    return {f"held_out_{k}": round(v, 5) for k, v in stage.evaluate().items()} if stage.evaluate else {}


def _note(stage: Stage, row: dict[str, float]) -> None:
    stage.log.parent.mkdir(parents=True, exist_ok=True)
    whole = not stage.log.exists() or stage.log.read_bytes()[-1:] in (b"", b"\n")
    with stage.log.open("a", encoding="utf-8") as file:
        file.write(("" if whole else "\n") + json.dumps(row) + "\n")
    print(f"{stage.name} {json.dumps(row)}", flush=True)
