"""The training of the embedded voice: its recipe, and its stages in order, each of which resumes where it was stopped.

In stage `target` target and draft learn together: the draft learns to agree with the target over its unrolled steps, and that
gradient reaches the target through the layers that the draft reads (multi-token prediction: DeepSeek-V3, arXiv 2412.19437).
"""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated, Self, TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from pcg.codec.embedded import CodecConfig, EmbeddedCodec
from pcg.errors import InputError, PCGError
from pcg.files import write_checksums, write_json
from pcg.groups.library import load_or_build_atlas
from pcg.groups.neighbours import build_neighbours
from pcg.models.feature_draft import unit, usual_taps
from pcg.models.weights import Vocabulary, check_device, load_llama
from pcg.recipe import Count, Recipe
from pcg.settings import bounds
from pcg.synthesis.voice import load_voice
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training import loop
from pcg.training.codec import train_against_critics, train_sound, train_tokens
from pcg.training.corpus import HELD_OUT, SAMPLE_RATE, SPEAKERS, Speaker, corpus_hours, make_corpus, speak
from pcg.training.draft import FEATURE, DraftRecipe, Material, draw_pairs, train_draft
from pcg.training.feature_draft import FeatureModel, read_feature_model, unrolled_divergence
from pcg.training.models import Shape, new_target, read_target, stages, start_from_digits, write_card, write_voice
from pcg.training.samples import encode_corpus, read_tokens
from pcg.training.tokens import IGNORED, Batch, TokenBatches, TokenizedUtterance, make_reader, used_codes

STAGES = ("corpus", "codec", "target", "draft", "publish")
TRIALS = 16
SHARES = {"codec_token": 0.1, "codec_sound": 0.2, "codec_critic": 0.2, "target": 0.4, "draft": 0.1}
"""Of the minutes, where a recipe has them."""
STEPS = {*(f"{name}_steps" for name in SHARES), "target_decay_share", "minutes"}
"""Choices in which a run may differ from the one that it resumes."""
MOST_CODES = 65_536

Module = TypeVar("Module", bound=nn.Module)


class VoiceRecipe(Recipe):
    """Every choice that shapes the voice."""

    speakers: dict[str, Speaker] = Field(SPEAKERS, min_length=1, description="Who speaks the corpus, and for how many hours.")
    held_out_each: Annotated[int, Field(ge=2, description="Held-out sentences of each kind that each voice says.")] = 100
    symbol_uses: Count = 50
    codec: CodecConfig = CodecConfig(levels=(8, 8, 8, 8, 4))
    codec_token_steps: Count = 2200
    codec_sound_steps: Count = 8400
    codec_critic_steps: Count = 2400
    target: Shape = Shape(layers=24)
    target_steps: Count = 6000
    target_budget: Annotated[Count, Field(description="Positions in a step of the target.")] = 8192
    target_decay_share: float = Field(0.4, gt=0, le=1, description="Of the steps, the last, in which the rate falls.")
    average: Annotated[float, Field(ge=0, le=1, description="Share of the first weights in those that a run ends with.")] = 0.1
    draft_rank: Count = 96
    draft_steps: Count = 2400
    samples: Count = 12288
    temperature: Annotated[float, Field(ge=bounds("temperature").low, le=bounds("temperature").high)] = 0.8
    minutes: float | None = Field(None, gt=0, description="Of training in all, each stage its share, in place of the steps.")

    def steps(self, stage: str) -> loop.Steps:
        return timedelta(minutes=self.minutes * SHARES[stage]) if self.minutes else getattr(self, f"{stage}_steps")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        codec = self.codec
        if prod(codec.levels) > MOST_CODES or min(codec.levels) < 2:
            raise InputError("levels", list(codec.levels), f"levels from 2 up whose product is at most {MOST_CODES}")
        if codec.sample_rate != SAMPLE_RATE:
            raise InputError("sample_rate", codec.sample_rate, f"{SAMPLE_RATE}, as the corpus has it")
        if self.target.width % (2 * self.target.heads):
            raise InputError("width", self.target.width, f"a multiple of {2 * self.target.heads}, twice the heads")
        return self


def train(
    stage: str, work: Path, prose: Path | None, out: Path, device: str, seed: int, processes: int, recipe: VoiceRecipe
) -> None:
    """Run one stage, or "all" of them, in `work`; finished stages are not repeated. Stage "unpack" lets the later ones continue
    from the published voice in `out`. Raises InputError if `work` was begun with another recipe or seed."""
    check_device(device)
    if stage in ("corpus", "all") and (prose is None or not prose.is_file()):
        raise InputError("prose", prose and str(prose), "a text file of English prose, one sentence a line")
    training = VoiceTraining(work, device, seed, recipe)
    given = {"corpus": (prose, processes), "publish": (out,), "unpack": (out,)}
    begun = {name: value for name, value in recipe.as_dict().items() if name not in STEPS}
    if stage != "unpack" and not loop.agrees(work / "recipe.json", {"seed": seed} | begun):
        raise InputError("work", str(work), "a folder whose recipe.json tells of the same recipe and seed")
    for name in STAGES if stage == "all" else (stage,):
        print(f"== {name}", flush=True)
        getattr(training, f"run_{name}")(*given.get(name, ()))


@dataclass(frozen=True)
class VoiceTraining:
    """A run: where it keeps its corpus and checkpoints, and what it runs on."""

    work: Path
    device: str
    seed: int
    recipe: VoiceRecipe

    def run_corpus(self, prose: Path, processes: int) -> None:
        make_corpus(self.corpus, prose, self.recipe.speakers, self.recipe.held_out_each, self.seed, processes)

    def run_codec(self) -> None:
        recipe, where = self.recipe, (self.seed, self.device)
        codec = train_tokens(self.work, self.corpus, recipe.codec, recipe.steps("codec_token"), *where)
        train_sound(self.work, self.corpus, codec, recipe.steps("codec_sound"), *where)
        train_against_critics(self.work, self.corpus, codec, recipe.steps("codec_critic"), *where)

    def run_target(self) -> None:
        """Train target and draft together; log loss, top-1 and overlaps, and those of each held-out set."""
        recipe, codec = self.recipe, self.codec().to(self.device)
        for split in ("train", *HELD_OUT):
            encode_corpus(self.work / "tokens" / split, self.corpus, split, codec)
        target = self.new_target()
        draft = self.new_draft(target)
        start_from_digits(target, codec.cpu().fsq, self.vocabulary, self.seed)
        if self.begun.exists():
            loop.load_checkpoint(self.begun, {"target": target, "draft": draft})
        both = nn.ModuleDict({"target": target, "draft": draft}).to(self.device)
        loop.with_fast_gradients(target)

        def batches(split: str, seed: int) -> TokenBatches:
            chosen = self.reader, self.vocabulary.codes, recipe.target_budget, seed, LONGEST
            return TokenBatches(self.spoken(split), *chosen, f"the corpus's split {split}")

        train, checks = batches("train", self.seed), {split: batches(split, 0) for split in HELD_OUT}
        optimizers = loop.make_optimizers(both, lr=3e-3, muon_lr=3e-3, weight_decay=0.1)
        losses = joint_loss(target, draft, self.vocabulary)
        print(f"target: {train.per_epoch} batches an epoch", flush=True)

        def step(index: int) -> dict[str, float]:
            batch = misheard(train.batch(index), self.vocabulary, loop.generator(self.seed + 1, index))
            return loop.learn(batch.to(self.device), losses, both, optimizers)

        @torch.no_grad()
        def evaluate() -> dict[str, float]:
            figures: dict[str, float] = {}
            for split, check in checks.items():
                sums: Counter[str] = Counter()
                for index in range(min(4, check.per_epoch)):
                    batch = check.batch(index).to(self.device)
                    sums.update(losses(batch)[1] | {"tokens": (batch.labels != IGNORED).sum()})
                name, tokens = split.removeprefix("held_out_"), sums.pop("tokens")
                figures |= {f"{name}_{figure}": float(value / tokens) for figure, value in sums.items()}
            return figures

        modules, pace = {"target": target, "draft": draft}, {"decay_share": recipe.target_decay_share, "every": 50}
        loop.run("target", self.work, recipe.steps("target"), modules, optimizers, step, evaluate, **pace)

    def run_draft(self) -> None:
        """Train the draft alone, on what the target says itself at the temperature in use."""
        recipe, corpus, target = self.recipe, self.spoken("train"), self.target()
        pairs = draw_pairs(self.spoken("held_out_sentences"), TRIALS, self.seed)
        learning = DraftRecipe(
            plan=FEATURE,
            rank=recipe.draft_rank,
            samples=recipe.samples,
            temperature=recipe.temperature,
            longest=2 * max(len(u.codes) for u in corpus),  # two utterances of the longest kind fit into a row
            seed=self.seed,
        )
        material = Material(corpus, pairs, self.reader, self.vocabulary)
        train_draft(self.work, self.draft(target), target, material, learning, self.device, recipe.steps("draft"))

    def run_publish(self, out: Path) -> None:
        """Write the voice, its map and its card."""
        codec, spoken, target = self.codec(), self.spoken("train"), self.target()
        references = {
            voice: Reference(said.reference, codec.encode(torch.from_numpy(speak(said, said.reference, self.seed))))
            for voice, said in self.recipe.speakers.items()
        }
        usage = used_codes(spoken, codec.codebook_size)
        write_voice(out, "embedded", target, self.draft(target), codec, self.reader, references, usage)
        write_checksums(out)  # without which it would not load
        # The map of the codes lies beside the voice, as it takes longer to make than a page should take to open.
        voice = load_voice(str(out))
        for old in out.glob("atlas-*.safetensors"):
            old.unlink()
        lists = build_neighbours(voice.code_embedding, bounds("theta").low, voice.usage > 0)
        load_or_build_atlas(lists, voice.code_embedding, voice.usage > 0, out)
        shape = self.recipe.codec
        facts = {
            "recipe": self.recipe.model_dump(),
            "seed": self.seed,
            "hours": corpus_hours(self.corpus),
            "utterances": len(spoken),
            "sizes": {p.parent.name: p.stat().st_size / 1e6 for p in sorted(out.glob("*/model.safetensors"))},
            "rate": shape.sample_rate // (shape.frame * shape.frames_per_token),
            "logs": stages(self.work, "*.jsonl"),
        }
        write_card(out, "voice", "text-to-speech", ["speculative-decoding", "speech-tokens"], **facts)
        write_checksums(out)
        print(f"published to {out}", flush=True)

    def run_unpack(self, published: Path) -> None:
        """Let the later stages continue from the voice in `published`: its codec is done, target and draft learn on."""
        voice, recipe = load_voice(str(published)), self.recipe
        if voice.codec.config != recipe.codec:
            raise InputError("codec", str(asdict(recipe.codec)), f"the published one's: {asdict(voice.codec.config)}")
        if any(self._saved(name).exists() for name in ("codec_tokens", "target", "unpacked")):
            raise InputError("work", str(self.work), "a folder without training of its own")
        target = load_llama(published / "target", voice.vocabulary)
        draft = read_feature_model(published / "draft", target, voice.vocabulary)
        for name, steps in (("codec_tokens", recipe.codec_token_steps), ("codec_sound", recipe.codec_sound_steps)):
            loop.save_checkpoint(self._saved(name), {"codec": voice.codec}, {}, steps, 60.0 * (recipe.minutes or 0))
        loop.save_checkpoint(self.begun, {"target": target, "draft": draft}, {}, 0, 0.0)
        write_json(self.work / "reader.json", {"symbols": voice.reader.symbols, "durations": voice.reader.durations})
        print(f"unpacked {published} into {self.work}", flush=True)

    @property
    def corpus(self) -> Path:
        return self.work / "corpus"

    @property
    def begun(self) -> Path:
        """Target and draft of the published voice that this run continues from."""
        return self._saved("unpacked")

    @cached_property
    def reader(self) -> PhonemeReader:
        shards = sorted((self.work / "tokens" / "train").glob("[0-9]*.json"))
        return make_reader(self.work / "reader.json", shards, self.recipe.symbol_uses)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(prod(self.recipe.codec.levels), self.reader.first_code, self.reader.end)

    def spoken(self, split: str) -> list[TokenizedUtterance]:
        return read_tokens(self.work / "tokens" / split, self.reader)

    def new_target(self) -> LlamaForCausalLM:
        return new_target(self.vocabulary, self.recipe.target, self.seed)

    def new_draft(self, target: LlamaForCausalLM) -> FeatureModel:
        return FeatureModel(target, self.vocabulary, usual_taps(self.recipe.target.layers), self.recipe.draft_rank)

    def codec(self) -> EmbeddedCodec:
        """Load the codec as far as it is trained."""
        return self._load(EmbeddedCodec(self.recipe.codec), "codec", "codec_critics", "codec_sound", "codec_tokens").eval()

    def target(self) -> LlamaForCausalLM:
        """Load the target as far as it is trained, averaged with the run's first: the loss is lower than of either."""
        model = self._load(self.new_target(), "target", "target")
        if self.begun.exists():
            first = self._load(self.new_target(), "target", "unpacked").state_dict()
            # The embedding has a second name as the head, so it moves twice: the published voices were made so.
            for name, weight in model.state_dict().items():
                weight.lerp_(first[name], self.recipe.average)
        return model.eval()

    def draft(self, target: LlamaForCausalLM) -> FeatureModel:
        """Load the draft as far as it is trained: alone, or together with the target."""
        return self._load(self.new_draft(target), "draft", "draft", "target").eval()

    def _saved(self, name: str) -> Path:
        return self.work / f"{name}.safetensors"

    def _load(self, module: Module, part: str, *names: str) -> Module:
        """Restore `module` as `part` of the first of the checkpoints `names` that is there."""
        path = next(filter(Path.exists, map(self._saved, names)), None)
        if path is None:
            raise PCGError(f"The {part} is not trained yet: {self.work} has no {names[-1]}.safetensors.")
        loop.load_checkpoint(path, {part: module})
        return module


DRAFT_SHARE, KL, TV = 0.3, 0.6, 0.6
LONGEST = 720
"""Speech codes in a row of a batch."""
MISHEARD_ROWS, MISHEARD_CODES = 0.5, 1 / 8
"""So many rows hear up to this share of their codes wrongly, with true labels: a swapped code or a slip is forgiven."""


def joint_loss(target: LlamaForCausalLM, draft: FeatureModel, vocabulary: Vocabulary) -> loop.Losses:
    """Return the loss of a batch, summed over its learned tokens: cross-entropy plus DRAFT_SHARE of the draft's divergence."""

    def losses(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        learned = batch.labels != IGNORED
        head = target.get_output_embeddings().weight[vocabulary.model_ids().to(target.device)]
        with torch.autocast(batch.ids.device.type, torch.bfloat16):
            taps, last = read_target(target, batch, draft.shape.tapped_layers)
            logits = F.linear(last[learned], head).float()
        labels = batch.labels[learned]
        loss = F.cross_entropy(logits, labels, reduction="sum")
        draft.embedding = unit(target.get_input_embeddings().weight.detach().float())
        divergent, overlaps = unrolled_divergence(draft, batch, taps, last, head, KL, TV)
        return loss + DRAFT_SHARE * divergent, {"loss": loss.detach(), "top1": (logits.argmax(-1) == labels).sum()} | overlaps

    return losses


def misheard(batch: Batch, vocabulary: Vocabulary, rng: torch.Generator) -> Batch:
    """Replace some of the speech codes that rows of `batch` hear by others; the labels stay true."""
    rows, length = batch.ids.shape
    share = torch.rand(rows, 1, generator=rng) * MISHEARD_CODES * (torch.rand(rows, 1, generator=rng) < MISHEARD_ROWS)
    first = vocabulary.first_code
    speech = (batch.ids >= first) & (batch.ids < first + vocabulary.codes)
    wrong = speech & (torch.rand(rows, length, generator=rng) < share)
    codes = torch.randint(vocabulary.codes, (rows, length), generator=rng) + first
    return replace(batch, ids=torch.where(wrong, codes, batch.ids))
