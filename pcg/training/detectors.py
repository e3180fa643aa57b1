"""Spoof detectors of a voice: real codes of the corpus against its own samples and garbage (MSpoofTTS sections 2.2 and 3.2).

Without garbage, as in the paper, they learn how likely codes are to the voice, and call real what is less likely than speech.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from sklearn.metrics import accuracy_score, f1_score
from torch import Generator, Tensor, nn
from torch.optim import AdamW

from pcg.errors import InputError
from pcg.files import write_checksums, write_json
from pcg.models.hub import weights_digest
from pcg.recipe import Count, Recipe
from pcg.settings import Checked, Settings
from pcg.spoof import (
    RESOLUTIONS,
    Detector,
    DetectorConfig,
    Detectors,
    Resolution,
    corpus_digest,
    load_detectors,
    save_detectors,
)
from pcg.synthesis.voice import Voice
from pcg.training.loop import agrees, generator, run, update
from pcg.training.models import write_card
from pcg.training.samples import encode_corpus, own_samples, read_tokens

KINDS = ("random", "uniform", "shuffled", "reversed", "swapped")
CANDIDATES = 16


@dataclass(frozen=True, eq=False)
class Garbage:
    """Makes garbage by how often the corpus uses each code, `usage [codes]`, and by the similarity of codes, the
    `embedding [codes, D]` of a language model (PCG Eq. 1)."""

    usage: Tensor
    embedding: Tensor

    def of(self, kind: str, segments: Tensor, generator: Generator) -> Tensor:
        """Make garbage of a kind, one of `KINDS`, of real `segments [N, span]`.

        "random" codes are drawn by the corpus's usage: no single code gives them away, only how codes follow each other;
        "uniform" ones from all used codes alike. "swapped": of `CANDIDATES` codes, drawn by usage, each code becomes any of the
        half whose cosine similarity to it is lower, the opposite of PCG's swap (PCG section 4).
        """
        if kind == "random":
            return self._drawn(segments, self.usage, generator)
        if kind == "uniform":
            return self._drawn(segments, self.usage > 0, generator)
        if kind == "shuffled":
            return segments.gather(-1, torch.rand(segments.shape, generator=generator).argsort(-1))
        if kind == "reversed":
            return segments.flip(-1)
        if kind == "swapped":
            unit = torch.nn.functional.normalize(self.embedding.float(), dim=-1)
            candidates = self._drawn(segments.unsqueeze(-1).expand(*segments.shape, CANDIDATES), self.usage, generator)
            similar = torch.stack([(unit[segments] * unit[codes]).sum(-1) for codes in candidates.unbind(-1)], dim=-1)
            far = candidates.gather(-1, similar.argsort(-1))[..., : CANDIDATES // 2]
            choice = torch.randint(CANDIDATES // 2, (*segments.shape, 1), generator=generator)
            return far.gather(-1, choice).squeeze(-1)
        raise InputError("garbage", kind, "one of " + ", ".join(KINDS))

    def _drawn(self, like: Tensor, weights: Tensor, generator: Generator) -> Tensor:
        """Draw as many codes as `like` has, each by `weights [codes]` and nothing else."""
        found = torch.multinomial(weights.double(), like.numel(), replacement=True, generator=generator)
        return found.view(like.shape)


OWN = "own"
GARBAGE = {"random": 0.1, "uniform": 0.05, "shuffled": 0.15, "reversed": 0.25, "swapped": 0.05}


@dataclass(frozen=True)
class Labelled:
    """Segments `[N, span]`, and 1 for real or 0 for synthetic `[N]` (float32), real ones first; by `every`, also the number of
    the utterance of each `[N]`, counted from 0 for both kinds."""

    segments: Tensor
    real: Tensor
    utterance: Tensor | None = None


class Mix(Checked):
    """The content of a batch: synthetic segments for each real one, and the shares of garbage among them; the rest are the
    voice's own samples. Reversed speech has the largest share, as it is the hardest to tell."""

    synthetic: int = Field(1, ge=1, description="at least 1 for each real segment")
    garbage: dict[Literal[KINDS], Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=GARBAGE.copy, description=f"shares from 0 to 1, together at most 1, of {', '.join(KINDS)}"
    )

    @model_validator(mode="after")
    def _leaves_a_share(self) -> "Mix":
        if self.own < 0:
            raise InputError("garbage", f"{sum(self.garbage.values()):g} together", self.allowed("garbage"))
        return self

    @property
    def own(self) -> float:
        """The share of the voice's own samples among synthetic segments."""
        return round(1 - sum(self.garbage.values()), 9)


@dataclass(frozen=True)
class Segments:
    """Utterances, each codes `[T]` (int64); those that are shorter than a segment are left out of it."""

    real: Sequence[Tensor]
    synthetic: Sequence[Tensor]

    def batch(self, resolution: Resolution, count: int, mix: Mix, garbage: Garbage, rng: random.Random) -> Labelled:
        """`count` segments from anywhere, real and synthetic as `mix` says; garbage is made of other real segments."""
        positives = max(1, count // (1 + mix.synthetic))
        kinds = rng.choices([OWN, *mix.garbage], weights=[mix.own, *mix.garbage.values()], k=count - positives)
        parts = [_drawn(self.real, resolution.span, positives, rng)]
        for kind, wanted in Counter(kinds).items():
            segments = _drawn(self.synthetic if kind == OWN else self.real, resolution.span, wanted, rng)
            if kind != OWN:
                segments = garbage.of(kind, segments, torch.Generator().manual_seed(rng.getrandbits(63)))
            parts.append(segments)
        return Labelled(torch.cat(parts), (torch.arange(count) < positives).float())

    def every(self, resolution: Resolution) -> Labelled:
        """Return all segments side by side, as many real as synthetic ones."""
        span = resolution.span
        halves = [
            [(i, u[s : s + span]) for i, u in enumerate(utterances) for s in range(0, len(u) - span + 1, span)]
            for utterances in (self.real, self.synthetic)
        ]
        count = min(map(len, halves))
        if not count:
            raise InputError("utterances", f"real or synthetic ones all shorter than {span} codes", "some that are as long")
        numbers, segments = zip(*halves[0][:count], *halves[1][:count], strict=True)
        return Labelled(torch.stack(segments), (torch.arange(2 * count) < count).float(), torch.tensor(numbers))


def _drawn(utterances: Sequence[Tensor], span: int, count: int, rng: random.Random) -> Tensor:
    """Cut segments `[count, span]`; every place of every utterance is as likely as any other."""
    places = [max(0, len(utterance) - span + 1) for utterance in utterances]
    if not any(places):
        raise InputError("utterances", f"all shorter than {span} codes", f"some of at least {span} codes")
    chosen = rng.choices(range(len(utterances)), weights=places, k=count)
    starts = [(i, rng.randrange(places[i])) for i in chosen]
    return torch.stack([utterances[i][start : start + span] for i, start in starts])


RESAMPLES = 1000


def held_out_figures(detectors: Detectors, held_out: Segments, garbage: Garbage) -> dict[str, object]:
    """Return the figures by detector, and under "garbage" by kind and detector; spoof is the mean of 1 - P(real)."""
    if not detectors.fit(garbage.usage):
        known = f"of the {detectors.codes} codes that the detectors know"
        raise InputError("voice", f"of {len(garbage.usage)} codes", f"{known}, by the same codec")
    figures: dict[str, object] = {"detectors": detectors.name}
    on_garbage: dict[str, dict[str, object]] = {kind: {} for kind in KINDS}
    for resolution in RESOLUTIONS:
        judge, labelled = partial(detectors.real, resolution), held_out.every(resolution)
        scores, real, utterance = judge(labelled.segments).numpy(), labelled.real.numpy() > 0, labelled.utterance.numpy()
        figures[resolution.name] = {
            **_auc(scores, real, utterance),
            "accuracy": round(float(accuracy_score(real, scores > 0.5)), 4),
            "macro_f1": round(float(f1_score(real, scores > 0.5, average="macro")), 4),
            "n": len(real),
            "spoof": {"real": _spoof(scores[real]), "own": _spoof(scores[~real])},
        }
        segments, of_real = labelled.segments[real], utterance[real]
        for kind in KINDS:
            made = judge(garbage.of(kind, segments, torch.Generator().manual_seed(0))).numpy()
            both = np.concatenate([scores[real], made]), np.repeat([True, False], len(made))
            area = _auc(*both, np.tile(of_real, 2))
            on_garbage[kind][resolution.name] = {"spoof": _spoof(made), **area}
    return figures | {"garbage": on_garbage}


def _auc(scores: np.ndarray, real: np.ndarray, utterance: np.ndarray) -> dict[str, object]:
    """Return the AUC with its 95 % bootstrap interval; utterances of each kind are resampled separately."""
    above = (scores[real, None] > scores[~real]) + 0.5 * (scores[real, None] == scores[~real])
    numbers = [np.unique(utterance[kind], return_inverse=True)[1] for kind in (real, ~real)]
    members = [np.arange(number.max() + 1)[:, None] == number for number in numbers]  # [utterances, segments]
    wins, sizes = members[0] @ above @ members[1].T, [of.sum(1) for of in members]
    rng = np.random.default_rng(0)
    times = [rng.multinomial(len(of), np.full(len(of), 1 / len(of)), RESAMPLES) for of in members]
    draws = ((times[0] @ wins) * times[1]).sum(1) / ((times[0] @ sizes[0]) * (times[1] @ sizes[1]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"auc": round(float(above.mean()), 4), "auc_interval": [round(float(low), 4), round(float(high), 4)]}


def _spoof(scores: np.ndarray) -> float:
    return round(float(1 - scores.mean()), 4)


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
