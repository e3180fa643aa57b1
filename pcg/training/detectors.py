"""Spoof detectors of a voice: real codes of the corpus against its own samples and garbage (MSpoofTTS sections 2.2 and 3.2)."""

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import nn
from torch.optim import AdamW

from pcg.errors import InputError
from pcg.files import write_checksums, write_json
from pcg.models.hub import weights_digest
from pcg.recipe import Count, Recipe
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS, Detector, DetectorConfig, Resolution, corpus_digest, load_detectors, save_detectors
from pcg.spoof.segments import Garbage, Mix, Segments, held_out_figures
from pcg.synthesis.voice import Voice
from pcg.training.loop import agrees, generator, run, update
from pcg.training.models import write_card
from pcg.training.samples import encode_corpus, own_samples, read_tokens

HELD_OUT = "held_out_sentences"
# Codes that stand far apart tell less of their order, and it takes longer to learn it.
STEPS = {"M50": 900, "M25": 900, "M10": 1500, "M50<-25": 3000, "M50<-10": 4000}


@dataclass(frozen=True)
class DetectorShape:
    """Size of a detector; the paper's has width 256, 8 heads, 4 layers and feed_forward 1024."""

    width: Count = 128
    heads: Count = 4
    layers: Count = 3
    feed_forward: Count = 256


class DetectorRecipe(Recipe):
    """Every choice that shapes the detectors. The paper's learning rate and weight decay are 1e-4, and it has three synthetic
    segments for each real one (sections 3.1 and 3.2)."""

    shape: DetectorShape = DetectorShape()
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


def train_detectors_of(
    voice: Voice, work: Path, out: Path, device: str, seed: int, recipe: DetectorRecipe
) -> dict[str, object]:
    """Train the detectors of `voice` on `work`/corpus, write them to `out`, and return their figures on held-out utterances.

    The embeddings of all of them begin with the target's own, brought to unit scale.
    """
    state = work / "detectors"
    plan = {"target": weights_digest(voice.target_folder), "seed": seed} | recipe.as_dict()
    if not agrees(state / "plan.json", plan):
        raise InputError("work", str(work), "a folder without detectors of another recipe or voice")
    usual = next(iter(recipe.samples))
    segments = {}
    for split, samples in (("train", recipe.samples), (HELD_OUT, {usual: recipe.held_out_samples})):
        encode_corpus(state / "tokens" / split, work / "corpus", split, voice.codec, recipe.shards)
        spoken, synthetic = read_tokens(state / "tokens" / split, voice.reader), []
        for temperature, count in samples.items():
            folder = state / f"samples_{split}_{temperature}"
            synthetic += own_samples(folder, voice.target, spoken, voice.reader, count, float(temperature), seed)
        segments[split] = Segments([u.codes for u in spoken], [u.codes for u in synthetic])
    train, held_out, garbage = segments["train"], segments[HELD_OUT], Garbage(voice.usage, voice.code_embedding)
    centred, detectors = voice.code_embedding - voice.code_embedding.mean(0), {}
    config = DetectorConfig(voice.codec.codebook_size, **asdict(recipe.shape), code_width=centred.shape[1])
    for place, resolution in enumerate(RESOLUTIONS):
        torch.manual_seed(seed + place)
        detector = Detector(config)
        with torch.no_grad():
            detector.embedding.weight.copy_(centred / centred.std())
        train_detector(state, detector.to(device), resolution, train, held_out, garbage, recipe, seed)
        detectors[resolution.name] = detector.cpu().eval()
    save_detectors(out, voice.name, detectors, corpus=corpus_digest(voice.usage))
    write_checksums(out)  # without which they would not load
    figures = held_out_figures(load_detectors(out), held_out, garbage)
    write_json(out / "figures.json", figures)
    facts = {
        "recipe": recipe.as_dict(),
        "hours": sum(len(u) for u in train.real) * voice.codec.hop / voice.codec.sample_rate / 3600,
        "utterances": len(train.real),
        "config": asdict(config),
        "detectors": {resolution.name: figures[resolution.name] for resolution in RESOLUTIONS},
        "garbage": figures["garbage"],
    }
    write_card(out, "detectors", "audio-classification", ["spoof-detection", "speech-tokens"], **facts)
    write_checksums(out)
    return figures


def train_detector(
    directory: Path,
    detector: Detector,
    resolution: Resolution,
    train: Segments,
    held_out: Segments,
    garbage: Garbage,
    recipe: DetectorRecipe,
    seed: int,
) -> None:
    """Train the detector of one resolution by binary cross-entropy, in place; resume where it stopped."""
    device = detector.embedding.weight.device
    optimizer = AdamW(detector.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    loss_of = nn.BCEWithLogitsLoss()

    def step(index: int) -> dict[str, float]:
        detector.train()
        torch.manual_seed(seed * 1_000_003 + index)
        rng = random.Random(generator(seed, index).initial_seed())
        batch = train.batch(resolution, recipe.batch, recipe.mix, garbage, rng)
        with torch.autocast(device.type, torch.bfloat16):
            logits = detector(batch.segments[:, :: resolution.stride].to(device))
        loss = loss_of(logits.float(), batch.real.to(device))
        update(loss, detector, [optimizer])
        return {"loss": loss.item()}

    @torch.inference_mode()
    def evaluate() -> dict[str, float]:
        detector.eval()
        check = held_out.every(resolution)
        logits = detector(check.segments[:, :: resolution.stride].to(device)).float().cpu()
        accuracy = ((logits > 0) == (check.real > 0)).float().mean().item()
        return {"loss": loss_of(logits, check.real).item(), "accuracy": accuracy}

    steps, name = recipe.steps[resolution.name], f"detector_{resolution.key}"
    modules, optimizers = {"detector": detector}, {"adamw": optimizer}
    run(name, directory, steps, modules, optimizers, step, evaluate, warmup=max(1, steps // 20))
