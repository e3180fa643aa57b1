"""Spoof detectors of a voice: real codes of the corpus against its own samples and garbage (MSpoofTTS sections 2.2 and 3.2)."""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from pcg.errors import InputError
from pcg.files import replacing, write_checksums, write_json
from pcg.models.hub import add_content, weights_digest
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS, Detector, DetectorConfig, Resolution, corpus_digest, load_detectors, save_detectors
from pcg.spoof.segments import Garbage, Mix, Segments, held_out_figures
from pcg.synthesis.voice import Voice
from pcg.training.corpus import read_shard, shards
from pcg.training.loop import Stage, agrees, generator, run, update
from pcg.training.publish import detector_card
from pcg.training.samples import Sampling, own_samples, read_shards, tokens_path, write_shard
from pcg.training.tokens import TokenizedUtterance

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


HELD_OUT = "held_out_sentences"
SIZES = ("small", "paper")


@dataclass(frozen=True)
class DetectorRecipe:
    """shards: of the corpus that are learned from. samples: how many texts the voice says, by temperature, as text;
    held_out_samples: at the first of these temperatures alone. size: of the detectors, "small", for a codebook of a few
    thousand codes and a few hours of speech, or "paper" (MSpoofTTS section 3.2)."""

    shards: int = 96
    samples: Mapping[str, int] = field(default_factory=lambda: {f"{Settings().temperature:g}": 6144, "1": 512})
    held_out_samples: int = 256
    size: str = "small"
    plan: SpoofPlan = field(default_factory=SpoofPlan)

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise InputError("size", self.size, "one of " + ", ".join(SIZES))

    @classmethod
    def of_size(cls, size: str) -> "DetectorRecipe":
        """The recipe for detectors of this size: the paper's learn by its plan."""
        return cls(size=size, plan=SpoofPlan.paper() if size == "paper" else SpoofPlan())

    def config(self, codes: int, code_width: int) -> DetectorConfig:
        """The shape of detectors of `codes` codes whose embeddings begin with a language model's, `code_width` wide."""
        if self.size == "paper":
            return DetectorConfig(codes, code_width=code_width)
        return DetectorConfig.small(codes, code_width)


def train_detectors_of(
    voice: Voice, work: Path, out: Path, device: str, seed: int, recipe: DetectorRecipe | None = None
) -> dict[str, object]:
    """Train the detectors of `voice` on `work`/corpus, write them to `out`, and return their figures on held-out utterances."""
    recipe, state, corpus = recipe or DetectorRecipe(), work / "detectors", work / "corpus"
    if not agrees(state / "plan.json", identity(voice) | {"seed": seed} | asdict(recipe)):
        raise InputError("work", str(work), "a folder without detectors of another recipe or voice")
    start, garbage = voice.code_embedding, Garbage(voice.usage, voice.code_embedding)
    config = recipe.config(voice.codec.codebook_size, start.shape[1])
    spoken = {split: voice_tokens(voice, corpus, state / "tokens", split, recipe.shards) for split in ("train", HELD_OUT)}
    train = _segments(voice, state, "train", spoken["train"], recipe.samples, seed)
    usual = next(iter(recipe.samples))
    held_out = _segments(voice, state, HELD_OUT, spoken[HELD_OUT], {usual: recipe.held_out_samples}, seed)
    trained = train_detectors(state, config, start, Examples(train, held_out, garbage), recipe.plan, seed, device)
    save_detectors(out, voice.name, trained, corpus=corpus_digest(voice.usage))
    held_out.save(out / "held_out.safetensors")
    write_checksums(out)  # without which they would not load
    figures = held_out_figures(load_detectors(out), held_out, garbage)
    write_json(out / "figures.json", figures)
    with replacing(out / "MODEL_CARD.md") as temporary:
        hours = sum(len(u) for u in train.real) * voice.codec.hop / voice.codec.sample_rate / 3600
        facts = {
            "recipe": asdict(recipe),
            "seed": seed,
            "hours": hours,
            "utterances": len(train.real),
            "config": asdict(config),
        }
        temporary.write_text(detector_card(facts, figures), encoding="utf-8")
    write_checksums(out)
    return figures


def identity(voice: Voice) -> dict[str, str]:
    """What a run notes of the voice that it is for: two of one name are different voices. Its drafts do not count."""
    codec = hashlib.sha256()
    add_content(codec, voice.codec_folder or voice.folder / "codec")
    return {"voice": voice.name, "target": weights_digest(voice.target_folder), "codec": codec.hexdigest()}


def voice_tokens(voice: Voice, corpus: Path, tokens: Path, split: str, count: int) -> list[TokenizedUtterance]:
    """The first `count` shards of a split of `corpus`, voices in turn, as `voice`'s codes, which are kept in `tokens`."""
    chosen = shards(corpus, split)[:count]
    if not chosen:
        raise InputError("work", str(corpus.parent), "a folder whose corpus/ was made by `pcg train corpus`")
    for number, shard in enumerate(chosen):
        path = tokens_path(tokens / split, number)
        if not path.exists():
            encoded = ((u.text, voice.codec.encode(torch.from_numpy(wave))) for u, wave in read_shard(shard))
            write_shard(path, [TokenizedUtterance(shard.parent.name, text, [], codes) for text, codes in encoded])
            print(f"tokens: {split} {number + 1} of {len(chosen)}", flush=True)
    return read_shards(tokens / split, voice.reader)


def _segments(
    voice: Voice, state: Path, split: str, spoken: list[TokenizedUtterance], samples: Mapping[str, int], seed: int
) -> Segments:
    said: list[TokenizedUtterance] = []
    for temperature, count in samples.items():
        sampling = Sampling(count, float(temperature), seed)
        said += own_samples(state / f"samples_{split}_{temperature}", voice.target, spoken, voice.reader, sampling)
    return Segments([u.codes for u in spoken], [u.codes for u in said])
