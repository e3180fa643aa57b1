"""One training loop for every stage: schedule, log, checkpoints, resume."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from itertools import count
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from transformers import PreTrainedModel

from pcg.errors import AssetError, first_line
from pcg.files import write_json, write_safetensors
from pcg.training.tokens import IGNORED, Batch


def save_checkpoint(
    path: Path, modules: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer], step: int, seconds: float
) -> None:
    """Write every module and every optimizer's tensors to `path`; all of their names differ."""
    tensors = {f"{name}/{key}": t for name, m in modules.items() for key, t in m.state_dict().items()}
    for name, optimizer in optimizers.items():
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{name}/{index}/{key}": torch.as_tensor(value) for key, value in state.items()}
    meta = {"meta": json.dumps({"step": step, "seconds": seconds})}
    write_safetensors(path, {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, meta)


def load_checkpoint(
    path: Path, modules: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer] | None = None
) -> tuple[int, float]:
    """Restore what `save_checkpoint` wrote, in place; return its step and seconds; raise AssetError for another file."""
    try:
        with safe_open(path, framework="pt") as file:
            parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
            for name in file.keys():  # noqa: SIM118
                part, _, key = name.partition("/")
                parts[part][key] = file.get_tensor(name)
            meta = json.loads(file.metadata()["meta"])
        for name, module in modules.items():
            module.load_state_dict(parts[name])
        for name, optimizer in (optimizers or {}).items():
            state: dict[int, dict[str, Tensor]] = defaultdict(dict)
            for key, tensor in parts[name].items():
                index, field = key.split("/")
                state[int(index)][field] = tensor
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return int(meta["step"]), float(meta["seconds"])
    except Exception as error:
        how = "damaged, or of another shape than is asked for: remove it, or ask for what it was made with"
        raise AssetError(f"The checkpoint {path} is {how} ({first_line(error)}).") from error


Steps = int | timedelta
"""How many, or a time: as many as fit into it, over all runs, with the checks between them."""
ROWS_BETWEEN = 5
"""Rows of a log from one evaluation to the next."""


def agrees(note: Path, asked: Mapping[str, object]) -> bool:
    """Return whether the file `note` holds `asked` (plain JSON); write it where there is none."""
    if not note.exists():
        write_json(note, asked)
    return json.loads(note.read_text(encoding="utf-8")) == json.loads(json.dumps(asked))


def run(
    name: str,
    directory: Path,
    steps: Steps,
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, Optimizer],
    step: Callable[[int], dict[str, float]],
    evaluate: Callable[[], dict[str, float]],
    warmup: int = 100,
    decay_share: float = 0.4,
    every: int = 100,
) -> dict[str, float]:
    """Train one stage to its last step, from its checkpoint in `directory` if there is one, beside which its log lies.

    Args:
        step: runs one update and returns its losses. It draws its batch from the number that it gets, so a resumed run sees the
            batches that it would have seen.
        evaluate: returns held-out figures; it is called in every fifth row of the log and after the last step.
        every: steps between two rows of the log.

    Returns:
        The held-out figures of the last step; none where no step was left.
    """
    checkpoint = directory / f"{name}.safetensors"
    rates = [group["lr"] for optimizer in optimizers.values() for group in optimizer.param_groups]
    done, seconds = load_checkpoint(checkpoint, modules, optimizers) if checkpoint.exists() else (0, 0.0)
    groups = [group for optimizer in optimizers.values() for group in optimizer.param_groups]
    sums: dict[str, float] = defaultdict(float)
    held_out: dict[str, float] = {}
    begun = time.monotonic() - seconds

    def share(number: int) -> float:
        return (time.monotonic() - begun) / steps.total_seconds() if isinstance(steps, timedelta) else number / steps

    finished = share(done) >= 1
    for index in count(done):
        if finished:
            break
        factor = learning_rate_factor(index, share(index), warmup, decay_share)
        for group, lr in zip(groups, rates, strict=True):
            group["lr"] = lr * factor
        for key, value in step(index).items():
            sums[key] += value
        number = index + 1
        finished = share(number) >= 1
        if number % every and not finished:
            continue
        summed, elapsed = min(number - done, index % every + 1), time.monotonic() - begun
        row = {"step": number, "seconds": round(elapsed, 1)} | {k: round(v / summed, 5) for k, v in sums.items()}
        if number % (ROWS_BETWEEN * every) == 0 or finished:
            held_out = {figure: round(value, 5) for figure, value in evaluate().items()}
            row |= {f"held_out_{figure}": value for figure, value in held_out.items()}
        sums.clear()
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{name} {json.dumps(row)}", flush=True)
        save_checkpoint(checkpoint, modules, optimizers, number, elapsed)
    return held_out


def learning_rate_factor(index: int, share: float, warmup: int, decay_share: float) -> float:
    """Linear warm-up over the first steps, constant, then linear to zero over the last `decay_share`; `share`: that is done."""
    return min(1.0, (index + 1) / warmup, max(0.0, (1 - share) / decay_share))


# Parts that map from or to something outside the network; "encoder" and "decoder" are none of them.
OUTER = re.compile(r"(^|[._])(embed|head|code|patch)")


def make_optimizers(module: nn.Module, lr: float, muon_lr: float, weight_decay: float = 0.05) -> dict[str, Optimizer]:
    """Make Muon for the matrices inside the network, and AdamW for all other weights that are not frozen."""
    matrices, rest = [], []
    for name, parameter in ((n, p) for n, p in module.named_parameters() if p.requires_grad):
        is_matrix = parameter.ndim == 2 and not OUTER.search(name)
        (matrices if is_matrix else rest).append(parameter)
    muon = Muon(matrices, lr=muon_lr, weight_decay=weight_decay)
    return {"muon": muon, "adamw": AdamW(rest, lr=lr, betas=(0.9, 0.95), weight_decay=0.0)}


class Muon(Optimizer):
    """Muon (Jordan et al., 2024): momentum, made orthogonal by Newton-Schulz, with AdamW's usual step size.

    Matrices of one shape are one batch, and products are float32 where the CPU only emulates bfloat16: torch's own takes half
    a minute a step there.
    """

    COEFFICIENTS, STEPS, MOMENTUM = (3.4445, -4.775, 2.0315), 5, 0.95

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in (w for w in group["params"] if w.grad is not None):
                shapes[weight.shape].append(weight)
            for shape, weights in shapes.items():
                updates = []
                for weight in weights:
                    momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                    momentum.lerp_(weight.grad, 1 - self.MOMENTUM)
                    updates.append(weight.grad.lerp(momentum, self.MOMENTUM))
                scaled = group["lr"] * 0.2 * max(shape) ** 0.5
                for weight, change in zip(weights, self._orthogonal(torch.stack(updates)), strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(change.to(weight.dtype), alpha=scaled)

    def _orthogonal(self, updates: Tensor) -> Tensor:
        """Replace the singular values of `updates [N, rows, columns]` by about 1."""
        emulated = updates.device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
        tall = updates.shape[1] > updates.shape[2]
        x = (updates.mT if tall else updates).to(torch.float32 if emulated else torch.bfloat16)
        x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
        a, b, c = self.COEFFICIENTS
        for _ in range(self.STEPS):
            gram = x @ x.mT
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.mT if tall else x


def update(loss: Tensor, module: nn.Module, optimizers: Iterable[Optimizer]) -> None:
    """Take one step down the gradient of `loss`, clipped to norm 1 over `module`."""
    module.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()


Losses = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]
"""The loss of a batch, summed over its tokens, and the sums of the figures that are logged."""


def learn(batch: Batch, losses: Losses, module: nn.Module, optimizers: dict[str, Optimizer]) -> dict[str, float]:
    """Take one step down the mean loss of the batch's learned tokens; return the means of the logged figures."""
    tokens = (batch.labels != IGNORED).sum()
    loss, sums = losses(batch)
    update(loss / tokens, module, optimizers.values())
    return {name: float(value / tokens) for name, value in sums.items()}


def with_fast_gradients(model: PreTrainedModel) -> None:
    """Choose the attention of `model` by its device: on a CPU the backward pass of the fused kernel is the slower one."""
    model.set_attn_implementation("eager" if model.device.type == "cpu" else "sdpa")


def generator(seed: int, index: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + index)
