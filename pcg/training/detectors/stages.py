"""Stage `detectors`: real codes of the corpus against the voice's own samples (MSpoofTTS sections 2.2 and 3.2) and garbage."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from pcg.spoof.detector import RESOLUTIONS, Detector, DetectorConfig, Resolution
from pcg.spoof.garbage import Garbage
from pcg.spoof.segments import Mix, Segments
from pcg.training.loop import Stage, generator, run, update

NAME = "detector"
# Codes that stand far apart tell less of their order, and it takes longer to learn it.
STEPS = {"M50": 900, "M25": 900, "M10": 1500, "M50<-25": 3000, "M50<-10": 4000}


@dataclass(frozen=True)
class SpoofPlan:
    """What shapes the detectors: steps by resolution, segments in a batch, the optimizer, and what batches are made of."""

    steps: Mapping[str, int] = field(default_factory=lambda: dict(STEPS))
    batch: int = 192
    lr: float = 1e-3
    weight_decay: float = 1e-2
    mix: Mix = field(default_factory=Mix)

    @classmethod
    def paper(cls) -> "SpoofPlan":
        """The paper's learning rate, weight decay and three synthetic segments for each real one (sections 3.1 and 3.2), for
        its larger detectors. How long it trains, and in which batches, it does not tell."""
        return cls({r.name: 6000 for r in RESOLUTIONS}, lr=1e-4, weight_decay=1e-4, mix=Mix(synthetic=3))


@dataclass(frozen=True, eq=False)
class Examples:
    """What detectors learn from, what they are checked on, and what garbage is made with."""

    train: Segments
    held_out: Segments
    garbage: Garbage


def train_detectors(
    directory: Path,
    config: DetectorConfig,
    start: Tensor | None,
    examples: Examples,
    plan: SpoofPlan,
    seed: int,
    device: str,
) -> dict[str, Detector]:
    """Binary cross-entropy, AdamW, one detector a resolution; resumes where it stopped, and ends on the CPU.

    start `[codes, code_width]`: the embeddings that all of them begin with, brought to unit scale.
    """
    detectors = {}
    for place, resolution in enumerate(RESOLUTIONS):
        torch.manual_seed(seed + place)
        detector = Detector(config)
        if start is not None:
            _begin_with(detector, start)
        _train(directory, detector.to(device), resolution, examples, plan, seed, device)
        detectors[resolution.name] = detector.cpu().eval()
    return detectors


def _train(
    directory: Path,
    detector: Detector,
    resolution: Resolution,
    examples: Examples,
    plan: SpoofPlan,
    seed: int,
    device: str,
) -> None:
    optimizer = AdamW(detector.parameters(), lr=plan.lr, weight_decay=plan.weight_decay)
    loss_of = nn.BCEWithLogitsLoss()

    def step(index: int) -> dict[str, float]:
        detector.train()
        torch.manual_seed(seed * 1_000_003 + index)
        rng = random.Random(generator(seed, index).initial_seed())
        batch = examples.train.batch(resolution, plan.batch, plan.mix, examples.garbage, rng)
        with torch.autocast(device, torch.bfloat16):
            logits = detector(batch.segments[:, :: resolution.stride].to(device))
        loss = loss_of(logits.float(), batch.real.to(device))
        update(loss, detector, [optimizer])
        return {"loss": loss.item()}

    @torch.inference_mode()
    def evaluate() -> dict[str, float]:
        detector.eval()
        check = examples.held_out.every(resolution)
        logits = detector(check.segments[:, :: resolution.stride].to(device)).float().cpu()
        return {
            "loss": loss_of(logits, check.real).item(),
            "accuracy": ((logits > 0) == (check.real > 0)).float().mean().item(),
        }

    steps = plan.steps[resolution.name]
    modules, name = {"detector": detector}, f"{NAME}_{resolution.key}"
    run(Stage(name, directory, steps, modules, {"adamw": optimizer}, step, evaluate, warmup=max(1, steps // 20)), seed)


@torch.no_grad()
def _begin_with(detector: Detector, embedding: Tensor) -> None:
    centred = embedding - embedding.mean(0)
    detector.embedding.weight.copy_(centred / centred.std())
