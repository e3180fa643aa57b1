"""The recipe of the embedded voice: its choices, its stages in order, each resumable, and what was recorded of them."""

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from pcg.codec.embedded import CodecConfig, EmbeddedCodec
from pcg.errors import InputError, PCGError
from pcg.files import mapping, read_yaml, replacing, write_checksums, write_json
from pcg.groups.library import load_or_build_atlas
from pcg.groups.neighbours import build_neighbours
from pcg.models.feature_draft import usual_taps
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import load_llama
from pcg.settings import bounds
from pcg.synthesis.voice import load_voice
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training.codec import train_sound, train_tokens
from pcg.training.corpus import CorpusPlan, make_corpus, read_index, shards
from pcg.training.feature_draft import FeatureModel, hold_out, read_feature_model, train_feature
from pcg.training.joint import average, train_jointly
from pcg.training.layer_draft import train_baselines, write_baselines
from pcg.training.loop import agrees, load_checkpoint, read_log, save_checkpoint
from pcg.training.publish import model_card, write_voice
from pcg.training.samples import OBJECTIVES, Material, Pair, Sampling, Schedule, draw_pairs, own_samples
from pcg.training.target import Shape, new_target, start_from_digits
from pcg.training.teachers import SAMPLE_RATE, SPEAKERS, Speaker, speak
from pcg.training.tokens import TokenizedUtterance, make_reader, read_spoken, tokenize_corpus, used_codes

STAGES = ("corpus", "codec", "target", "draft", "baselines", "publish")
TRIALS = 16
REFERENCE_TEXT = "The old boat moved slowly along the river."
STEPS = (*("codec_token_steps", "codec_sound_steps", "target_steps", "target_decay_share", "draft_steps", "baseline_steps"),)
"""Choices in which a run may differ from the one that it resumes."""
MOST_CODES, LONGEST_FRAME = 65_536, 480


@dataclass(frozen=True)
class Recipe:
    """Every choice that shapes the voice. speakers: who speaks the corpus, and for how many hours. target_budget: positions in
    a step of the target. target_decay_share: of its steps, the last ones, in which its rate falls to zero. average: share of
    the weights that the target began with in those that it ends with."""

    speakers: dict[str, Speaker] = field(default_factory=lambda: dict(SPEAKERS))
    held_out_each: int = 100
    symbol_uses: int = 50
    codec: CodecConfig = CodecConfig(levels=(8, 8, 8, 8, 4))
    codec_token_steps: int = 2200
    codec_sound_steps: int = 8400
    target: Shape = Shape(layers=24)
    target_steps: int = 6000
    target_budget: int = 8192
    target_decay_share: float = 0.4
    average: float = 0.1
    draft_rank: int = 96
    draft_steps: int = 2400
    baseline_steps: int = 600
    samples: int = 12288
    temperature: float = 0.8


@dataclass(frozen=True)
class Workshop:
    """Where a run keeps its corpus and checkpoints, and what it runs on."""

    work: Path
    device: str
    seed: int
    recipe: Recipe

    def claim(self) -> None:
        """Note what the work folder is for; raise InputError where it is for another recipe or seed."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name not in STEPS}
        if not agrees(self.work / "recipe.json", {"seed": self.seed} | recipe):
            raise InputError("work", str(self.work), "a folder whose recipe.json tells of the same recipe and seed")

    @property
    def corpus(self) -> Path:
        return self.work / "corpus"

    @property
    def begun(self) -> Path:
        """Where target and draft of a published voice lie that this run continues from."""
        return self.work / "unpacked.safetensors"

    @property
    def hop(self) -> int:
        return self.recipe.codec.frame * self.recipe.codec.frames_per_token

    def codec(self) -> EmbeddedCodec:
        """Load the codec as far as it is trained."""
        codec = EmbeddedCodec(self.recipe.codec)
        trained = [p for p in (self._saved("codec_sound"), self._saved("codec_tokens")) if p.exists()]
        load_checkpoint(trained[0] if trained else self._needed("codec"), {"codec": codec}, {})
        return codec.eval()

    def reader(self) -> PhonemeReader:
        return make_reader(self.work, self.corpus, self.hop, self.recipe.symbol_uses)

    def vocabulary(self) -> Vocabulary:
        reader = self.reader()
        return Vocabulary(int(np.prod(self.recipe.codec.levels)), reader.first_code, reader.end)

    def spoken(self, split: str) -> list[TokenizedUtterance]:
        return read_spoken(self.work, self.corpus, split, self.hop, self.reader())

    def new_pair(self) -> tuple[LlamaForCausalLM, FeatureModel]:
        """Make a random target and its draft."""
        target = new_target(self.reader(), self.vocabulary(), self.recipe.target, self.seed)
        taps = usual_taps(self.recipe.target.layers)
        return target, FeatureModel(target, self.vocabulary(), taps, self.recipe.draft_rank)

    def target(self) -> LlamaForCausalLM:
        model, _ = self.new_pair()
        load_checkpoint(self._needed("target"), {"target": model}, {})
        if self.begun.exists():
            start, _ = self.new_pair()
            load_checkpoint(self.begun, {"target": start}, {})
            average(model, start.state_dict(), self.recipe.average)
        return model.eval()

    def draft(self, target: LlamaForCausalLM) -> FeatureModel:
        """Load the draft as far as it is trained: alone, or together with the target."""
        model = FeatureModel(target, self.vocabulary(), usual_taps(self.recipe.target.layers), self.recipe.draft_rank)
        alone = self._saved("draft")
        load_checkpoint(alone if alone.exists() else self._needed("target"), {"draft": model}, {})
        return model.eval()

    def _saved(self, name: str) -> Path:
        return self.work / f"{name}.safetensors"

    def _needed(self, stage: str) -> Path:
        path = self._saved(stage)
        if not path.exists():
            raise PCGError(f"The {stage} is not trained yet: no {path.name} in {self.work}; run stage {stage} first.")
        return path


def train(
    stage: str, work: Path, prose: Path | None, out: Path, device: str, seed: int, processes: int, recipe: Recipe | None = None
) -> None:
    """Run one stage, or "all" of them, in `work`; what is done already is not done again. Stage "unpack" lets the later ones
    continue from the published voice in `out`."""
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))
    shop = Workshop(work, device, seed, recipe or Recipe())
    stages = {
        "corpus": lambda: _corpus(shop, prose, processes),
        "codec": lambda: _codec(shop),
        "target": lambda: _target(shop),
        "draft": lambda: _draft(shop),
        "baselines": lambda: _baselines(shop),
        "publish": lambda: _publish(shop, out),
        "unpack": lambda: _unpack(shop, out),
    }
    if stage != "unpack":  # which may refuse the recipe
        shop.claim()
    for name in STAGES if stage == "all" else (stage,):
        print(f"== {name}", flush=True)
        stages[name]()


def _corpus(shop: Workshop, prose: Path | None, processes: int) -> None:
    if prose is None or not prose.is_file():
        raise InputError("prose", str(prose), "a text file of English prose, one sentence a line")
    hours = make_corpus(shop.corpus, prose, CorpusPlan(shop.recipe.speakers, shop.recipe.held_out_each, shop.seed), processes)
    print(f"corpus: {hours:.1f} hours", flush=True)


def _codec(shop: Workshop) -> None:
    codec = train_tokens(shop.work, shop.corpus, shop.recipe.codec, shop.recipe.codec_token_steps, shop.seed, shop.device)
    train_sound(shop.work, shop.corpus, codec, shop.recipe.codec_sound_steps, shop.seed, shop.device)


def _target(shop: Workshop) -> None:
    recipe = shop.recipe
    tokenize_corpus(shop.work, shop.corpus, shop.codec(), shop.device)
    target, draft = shop.new_pair()
    start_from_digits(target, shop.codec().fsq, shop.vocabulary(), shop.seed)
    if shop.begun.exists():
        load_checkpoint(shop.begun, {"target": target, "draft": draft}, {})
    held_out = {name: shop.spoken(f"held_out_{name}") for name in ("sentences", "words")}
    asked = (shop.spoken("train"), held_out, shop.reader(), shop.vocabulary(), recipe.target_steps, shop.seed, shop.device)
    train_jointly(shop.work, target, draft, *asked, recipe.target_budget, decay_share=recipe.target_decay_share)


def _draft(shop: Workshop) -> None:
    """Train the draft alone, on what the target says itself at the temperature in use."""
    target = shop.target().to(shop.device)
    material, pairs = _material(shop, target)
    learned, held_out = hold_out(material, pairs, TRIALS, shop.seed)
    draft, schedule = shop.draft(target), _schedule(material, shop.recipe.draft_steps)
    asked = (OBJECTIVES["overlap"], schedule, shop.recipe.temperature, shop.seed, shop.device, held_out)
    train_feature(shop.work, draft, target, learned, *asked, fresh=False)


def _baselines(shop: Workshop) -> None:
    target = shop.target().to(shop.device)
    material, pairs = _material(shop, target)
    asked = (_schedule(material, shop.recipe.baseline_steps), shop.recipe.temperature, shop.seed, shop.device)
    train_baselines(shop.work / "baselines", target, material, pairs, *asked)


def _material(shop: Workshop, target: LlamaForCausalLM) -> tuple[Material, list[Pair]]:
    """What drafts learn from, and the pairs that they are tried on."""
    recipe, reader, vocabulary, corpus = shop.recipe, shop.reader(), shop.vocabulary(), shop.spoken("train")
    sampling = Sampling(recipe.samples, recipe.temperature, shop.seed)
    samples = own_samples(shop.work / "samples", DecodingLlama(target, vocabulary), corpus, reader, sampling)
    return Material(corpus, samples, reader, vocabulary), draw_pairs(shop.spoken("held_out_sentences"), TRIALS, shop.seed)


def _schedule(material: Material, steps: int) -> Schedule:
    """Two utterances of the longest kind fit into a row."""
    return Schedule(steps, longest=2 * max(len(u.codes) for u in material.corpus))


def _publish(shop: Workshop, out: Path) -> None:
    """Write the voice and its card; `NOTES.md` in the work folder, if there is one, goes into the card."""
    codec, spoken, target = shop.codec(), shop.spoken("train"), shop.target()
    references = {
        voice: Reference(REFERENCE_TEXT, codec.encode(torch.from_numpy(speak(speaker, REFERENCE_TEXT, shop.seed))))
        for voice, speaker in shop.recipe.speakers.items()
    }
    usage = used_codes(spoken, codec.codebook_size)
    write_voice(out, "embedded", target, shop.draft(target), codec, shop.reader(), references, usage)
    write_baselines(out, shop.work / "baselines", target)
    write_checksums(out)  # without which it would not load
    publish_map(out)
    hours = {
        v: sum(u.length for p in shards(shop.corpus) if p.parent.name == v for u in read_index(p)) / SAMPLE_RATE / 3600
        for v in shop.recipe.speakers
    }
    notes = shop.work / "NOTES.md"
    written = notes.read_text(encoding="utf-8").strip() if notes.exists() else ""
    facts = {"notes": written, "recipe": asdict(shop.recipe), "seed": shop.seed, "hours": hours, "utterances": len(spoken)}
    logs = {p.stem: read_log(p) for p in sorted(shop.work.glob("*.jsonl"))}
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(model_card(facts, logs, out), encoding="utf-8")
    write_checksums(out)
    print(f"published to {out}", flush=True)


def publish_map(out: Path) -> None:
    """Put the map of the voice's codes beside it, which takes longer to make than a page should take to open."""
    voice = load_voice(str(out))
    eligible = voice.usage > 0
    for old in out.glob("atlas-*.safetensors"):
        old.unlink()
    lists = build_neighbours(voice.code_embedding, bounds("theta").low, eligible)
    load_or_build_atlas(lists, voice.code_embedding, eligible, out)


def _unpack(shop: Workshop, published: Path) -> None:
    """Let the later stages continue from the voice in `published`: its codec is done, target and draft learn on."""
    voice, recipe = load_voice(str(published)), shop.recipe
    if voice.codec.config != recipe.codec:
        raise InputError("codec", str(asdict(recipe.codec)), f"the published one's: {asdict(voice.codec.config)}")
    if any((shop.work / f"{name}.safetensors").exists() for name in ("codec_tokens", "target", "unpacked")):
        raise InputError("work", str(shop.work), "a folder without training of its own")
    shop.claim()
    target = load_llama(published / "target", voice.vocabulary)
    draft = read_feature_model(published / "draft", target, voice.vocabulary)
    for name, steps in (("codec_tokens", recipe.codec_token_steps), ("codec_sound", recipe.codec_sound_steps)):
        meta = {"step": steps, "seconds": 0.0, "seed": shop.seed, "steps": steps}
        save_checkpoint(shop.work / f"{name}.safetensors", {"codec": voice.codec}, {}, meta)
    save_checkpoint(shop.begun, {"target": target, "draft": draft}, {}, {"step": 0, "seconds": 0.0})
    write_json(shop.work / "reader.json", {"symbols": voice.reader.symbols, "durations": voice.reader.durations})
    print(f"unpacked {published} into {shop.work}", flush=True)


def read_recipe(path: Path) -> Recipe:
    """Read a YAML file that names the choices that differ from `Recipe`'s; raise InputError for anything else."""
    recipe = _changed("recipe", Recipe(), read_yaml("recipe", path))
    bounds("temperature").check("temperature", recipe.temperature)
    codec = recipe.codec
    if prod(codec.levels) > MOST_CODES:
        raise InputError("levels", list(codec.levels), f"levels whose product is at most {MOST_CODES}")
    if codec.sample_rate != SAMPLE_RATE:
        raise InputError("sample_rate", codec.sample_rate, f"{SAMPLE_RATE}, as the corpus has it")
    if codec.frame % 2 or codec.frame > LONGEST_FRAME:
        raise InputError("frame", codec.frame, f"an even number up to {LONGEST_FRAME}")
    if codec.window % 2 or codec.window < 2 * codec.frame:  # or the sum of the windows has gaps
        raise InputError("window", codec.window, f"an even number from {2 * codec.frame} up, twice the frame")
    if recipe.held_out_each < 2:
        raise InputError("held_out_each", recipe.held_out_each, "a whole number from 2 up: one is spoken after another")
    for name, least in (("target_decay_share", 0.0), ("average", -1e-9)):
        if not least < getattr(recipe, name) <= 1:
            raise InputError(name, getattr(recipe, name), "a number from 0 to 1")
    if recipe.target.width % (2 * recipe.target.heads):
        raise InputError("width", recipe.target.width, f"a multiple of {2 * recipe.target.heads}, twice the heads")
    return recipe


def _changed(where: str, schema: Any, value: object) -> Any:
    """The dataclass `schema` with the fields that `value` names; each keeps its kind."""
    found = mapping(where, value, [f.name for f in fields(schema)])
    return replace(schema, **{name: _one(name, getattr(schema, name), each) for name, each in found.items()})


def _one(name: str, usual: object, value: object) -> object:
    if is_dataclass(usual):
        return _changed(name, usual, value)
    if isinstance(usual, dict):
        if not isinstance(value, dict) or not value:
            raise InputError(name, value, "voices, each as in heart: {teacher: hibari, shift: 1.0, hours: 18}")
        return {str(voice): _changed(str(voice), Speaker("hibari"), said) for voice, said in value.items()}
    if isinstance(usual, tuple):
        if not isinstance(value, list) or not value:
            raise InputError(name, value, "a list of whole numbers")
        return tuple(_whole(name, each, 2) for each in value)
    if isinstance(usual, str):
        return str(value)
    if isinstance(usual, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(name, value, "a number")
        return float(value)
    return _whole(name, value, 1)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise InputError(name, value, f"a whole number from {least} up")
    return value
