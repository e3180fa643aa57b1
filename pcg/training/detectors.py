"""Spoof detectors of a voice: real codes of the corpus against its own samples and garbage (MSpoofTTS sections 2.2 and 3.2)."""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import AdamW

from pcg.errors import InputError
from pcg.files import replacing, write_checksums, write_json
from pcg.models.hub import add_content, weights_digest
from pcg.recipe import Count, Recipe
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS, Detector, DetectorConfig, Resolution, corpus_digest, load_detectors, save_detectors
from pcg.spoof.segments import Garbage, Mix, Segments, held_out_figures
from pcg.synthesis.voice import Voice
from pcg.training.loop import Stage, agrees, generator, run, update
from pcg.training.publish import detector_card
from pcg.training.samples import encode_corpus, own_samples, read_shards
from pcg.training.tokens import TokenizedUtterance

HELD_OUT = "held_out_sentences"
# Codes that stand far apart tell less of their order, and it takes longer to learn it.
STEPS = {"M50": 900, "M25": 900, "M10": 1500, "M50<-25": 3000, "M50<-10": 4000}


class DetectorRecipe(Recipe):
    """Every choice that shapes the detectors."""

    size: Literal["small", "paper"] = Field(
        "small", description="small: for a codebook of a few thousand codes and a few hours of speech; paper: MSpoofTTS's."
    )
    shards: Count = Field(96, description="Shards of the corpus that are learned from.")
    samples: dict[str, Count] = Field(
        {f"{Settings().temperature:g}": 6144, "1": 512}, description="Texts that the voice says, by temperature.", min_length=1
    )
    held_out_samples: Count = Field(256, description="Held-out texts, at the first of these temperatures.")
    steps: dict[str, Count] = Field(STEPS, description="By resolution.")
    batch: Count = Field(192, description="Segments in a batch.")
    lr: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 1e-2
    mix: Mix = Mix()

    @classmethod
    def of(cls, values: object, what: str = "recipe") -> "DetectorRecipe":
        """Build from plain values. Size "paper" brings the paper's learning rate, weight decay and three synthetic segments for
        each real one (sections 3.1 and 3.2); the paper does not say how long it trains, and in which batches."""
        if isinstance(values, dict) and values.get("size") == "paper":
            steps = {resolution.name: 6000 for resolution in RESOLUTIONS}
            values = {"steps": steps, "lr": 1e-4, "weight_decay": 1e-4, "mix": {"synthetic": 3}} | values
        return super().of(values, what)

    def config(self, codes: int, code_width: int) -> DetectorConfig:
        """Return the shape of detectors of `codes` codes whose embeddings begin with a language model's, `code_width` wide."""
        if self.size == "paper":
            return DetectorConfig(codes, code_width=code_width)
        return DetectorConfig.small(codes, code_width)


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
    recipe: DetectorRecipe,
    seed: int,
    device: str,
) -> dict[str, Detector]:
    """Train one detector a resolution by binary cross-entropy; resume where it stopped, and end on the CPU.

    Args:
        start: embeddings `[codes, code_width]` that all of them begin with, brought to unit scale.
    """
    detectors = {}
    for place, resolution in enumerate(RESOLUTIONS):
        torch.manual_seed(seed + place)
        detector = Detector(config)
        if start is not None:
            _begin_with(detector, start)
        _train(directory, detector.to(device), resolution, examples, recipe, seed, device)
        detectors[resolution.name] = detector.cpu().eval()
    return detectors


def _train(
    directory: Path,
    detector: Detector,
    resolution: Resolution,
    examples: Examples,
    recipe: DetectorRecipe,
    seed: int,
    device: str,
) -> None:
    optimizer = AdamW(detector.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    loss_of = nn.BCEWithLogitsLoss()

    def step(index: int) -> dict[str, float]:
        detector.train()
        torch.manual_seed(seed * 1_000_003 + index)
        rng = random.Random(generator(seed, index).initial_seed())
        batch = examples.train.batch(resolution, recipe.batch, recipe.mix, examples.garbage, rng)
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
        accuracy = ((logits > 0) == (check.real > 0)).float().mean().item()
        return {"loss": loss_of(logits, check.real).item(), "accuracy": accuracy}

    steps, name = recipe.steps[resolution.name], f"detector_{resolution.key}"
    modules, optimizers = {"detector": detector}, {"adamw": optimizer}
    run(Stage(name, directory, steps, modules, optimizers, step, evaluate, warmup=max(1, steps // 20)))


@torch.no_grad()
def _begin_with(detector: Detector, embedding: Tensor) -> None:
    centred = embedding - embedding.mean(0)
    detector.embedding.weight.copy_(centred / centred.std())


def train_detectors_of(
    voice: Voice, work: Path, out: Path, device: str, seed: int, recipe: DetectorRecipe
) -> dict[str, object]:
    """Train the detectors of `voice` on `work`/corpus, write them to `out`, and return their figures on held-out utterances."""
    state, corpus = work / "detectors", work / "corpus"
    if not agrees(state / "plan.json", identity(voice) | {"seed": seed} | recipe.as_dict()):
        raise InputError("work", str(work), "a folder without detectors of another recipe or voice")
    start, garbage = voice.code_embedding, Garbage(voice.usage, voice.code_embedding)
    config = recipe.config(voice.codec.codebook_size, start.shape[1])
    for split in ("train", HELD_OUT):
        encode_corpus(state / "tokens" / split, corpus, split, voice.codec, recipe.shards)
    spoken = {split: read_shards(state / "tokens" / split, voice.reader) for split in ("train", HELD_OUT)}
    train = _segments(voice, state, "train", spoken["train"], recipe.samples, seed)
    usual = next(iter(recipe.samples))
    held_out = _segments(voice, state, HELD_OUT, spoken[HELD_OUT], {usual: recipe.held_out_samples}, seed)
    trained = train_detectors(state, config, start, Examples(train, held_out, garbage), recipe, seed, device)
    save_detectors(out, voice.name, trained, corpus=corpus_digest(voice.usage))
    held_out.save(out / "held_out.safetensors")
    write_checksums(out)  # without which they would not load
    figures = held_out_figures(load_detectors(out), held_out, garbage)
    write_json(out / "figures.json", figures)
    hours = sum(len(u) for u in train.real) * voice.codec.hop / voice.codec.sample_rate / 3600
    facts = {"recipe": recipe.as_dict(), "hours": hours, "utterances": len(train.real), "config": asdict(config)}
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(detector_card(facts, figures), encoding="utf-8")
    write_checksums(out)
    return figures


def identity(voice: Voice) -> dict[str, str]:
    """Return name and digests of the voice that a run is for: voices of one name may differ. Drafts do not count."""
    codec = hashlib.sha256()
    add_content(codec, voice.codec_folder or voice.folder / "codec")
    return {"voice": voice.name, "target": weights_digest(voice.target_folder), "codec": codec.hexdigest()}


def _segments(
    voice: Voice, state: Path, split: str, spoken: list[TokenizedUtterance], samples: Mapping[str, int], seed: int
) -> Segments:
    synthetic: list[TokenizedUtterance] = []
    for temperature, count in samples.items():
        folder = state / f"samples_{split}_{temperature}"
        synthetic += own_samples(folder, voice.target, spoken, voice.reader, count, float(temperature), seed)
    return Segments([u.codes for u in spoken], [u.codes for u in synthetic])
