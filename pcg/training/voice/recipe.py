"""The recipe of the embedded voice: its stages in order, each resumable, and what was recorded of them."""

from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.files import replacing, write_json
from pcg.files.checksums import write_checksums
from pcg.groups.atlas import load_or_build_atlas
from pcg.groups.pairs.neighbours import build_neighbours
from pcg.groups.phones import phones_of_codes
from pcg.models.feature_draft import is_feature_draft, usual_taps
from pcg.models.llama import DecodingLlama
from pcg.settings import bounds
from pcg.synthesis.voice import load_llama, load_voice
from pcg.text.prompt import Reference
from pcg.training import checkpoint
from pcg.training.data.alignments import HOP, align_shards, read_phones
from pcg.training.data.corpus import CorpusPlan, make_corpus, read_index, shards, speak
from pcg.training.data.samples import Sampling, own_samples
from pcg.training.data.tokens import read_codes, tokenize_corpus, used_codes
from pcg.training.draft.acceptance import Pair, draw_pairs
from pcg.training.draft.distil import OBJECTIVES, Material, Schedule
from pcg.training.draft.feature import read_feature_model
from pcg.training.draft.unrolled import hold_out, train_feature
from pcg.training.growth import deepened
from pcg.training.loop import read_log
from pcg.training.voice.baselines import train_baselines, write_baselines
from pcg.training.voice.card import model_card
from pcg.training.voice.codec import train_sound, train_tokens
from pcg.training.voice.publish import write_voice
from pcg.training.voice.target import Shape, new_target, start_from_digits, train_target
from pcg.training.voice.workshop import Recipe, Workshop
from pcg.training.workers import Workers

STAGES = ("corpus", "codec", "target", "draft", "baselines", "publish")
DRAFT_TRIALS = 16
REFERENCE_TEXT = "the old boat moved slowly along the river."


def train(
    stage: str,
    work: Path,
    prose: Path | None,
    out: Path,
    device: str,
    seed: int,
    processes: int,
    recipe: Recipe | None = None,
    workers: Workers | None = None,
) -> None:
    """Run one stage, or "all" of them, in `work`; what is done already is not done again. "unpack" is none of them: it lets
    the later stages go on from a voice that was published."""
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))
    shop = Workshop(work, device, seed, recipe or Recipe(), workers or Workers(device))
    if stage != "unpack":  # which may refuse the recipe
        shop.claim()
    for name in STAGES if stage == "all" else (stage,):
        print(f"== {name}", flush=True)
        if name == "corpus":
            _corpus(shop, prose, processes)
        elif name in ("publish", "unpack"):
            _publish(shop, out, processes) if name == "publish" else _unpack(shop, out)
        else:
            {"codec": _codec, "target": _target, "draft": _draft, "baselines": _baselines}[name](shop)


def _corpus(shop: Workshop, prose: Path | None, processes: int) -> None:
    if prose is None or not prose.is_file():
        raise InputError("prose", str(prose), "a text file of English prose, one sentence a line")
    plan = CorpusPlan(shop.recipe.hours, shop.recipe.held_out_each, shop.seed)
    hours = make_corpus(shop.corpus, prose, plan, processes)
    print(f"corpus: {hours:.1f} hours", flush=True)


def _codec(shop: Workshop) -> None:
    codec = train_tokens(shop.work, shop.corpus, shop.recipe.codec, shop.recipe.codec_token_steps, shop.seed, shop.device)
    train_sound(shop.work, shop.corpus, codec, shop.recipe.codec_sound_steps, shop.seed, shop.device)


def _target(shop: Workshop) -> None:
    if shop.workers.leads:
        tokenize_corpus(shop.work, shop.corpus, shop.codec(), shop.device)
    shop.workers.wait()
    model = new_target(shop.reader(), shop.vocabulary(), shop.recipe.target, shop.seed)
    start_from_digits(model, shop.codec().fsq, shop.vocabulary(), shop.seed)
    held_out = {name: shop.spoken(f"held_out_{name}") for name in ("sentences", "words")}
    train_target(
        shop.work,
        model,
        shop.spoken("train"),
        held_out,
        shop.reader(),
        shop.vocabulary(),
        shop.recipe.target_steps,
        shop.seed,
        shop.workers,
        shop.listener().figures,
        shop.recipe.target_budget,
        decay_share=shop.recipe.target_decay_share,
    )
    shop.workers.wait()


def _draft(shop: Workshop) -> None:
    """A feature draft, from what the target says itself at the temperature in use."""
    recipe, target = shop.recipe, shop.target().to(shop.device)
    material, pairs = _material(shop, target)
    learned, held_out = hold_out(material, pairs, DRAFT_TRIALS, shop.seed)
    train_feature(
        shop.work,
        shop.new_draft(target),
        target,
        learned,
        OBJECTIVES["overlap"],
        _schedule(material, recipe.draft_steps),
        recipe.temperature,
        shop.seed,
        shop.workers,
        held_out,
    )
    shop.workers.wait()


def _baselines(shop: Workshop) -> None:
    target = shop.target().to(shop.device)
    material, pairs = _material(shop, target)
    schedule = _schedule(material, shop.recipe.baseline_steps)
    train_baselines(shop.baselines, target, material, pairs, schedule, shop.recipe.temperature, shop.seed, shop.workers)


def _material(shop: Workshop, target: LlamaForCausalLM) -> tuple[Material, list[Pair]]:
    """What drafts learn from, and the pairs that they are tried on."""
    recipe, reader, vocabulary, corpus = shop.recipe, shop.reader(), shop.vocabulary(), shop.spoken("train")
    sampling = Sampling(recipe.samples, recipe.temperature, shop.seed)
    samples = own_samples(shop.work / "samples", DecodingLlama(target, vocabulary), corpus, reader, sampling, shop.workers)
    return Material(corpus, samples, reader, vocabulary), draw_pairs(shop.spoken("held_out_sentences"), DRAFT_TRIALS, shop.seed)


def _schedule(material: Material, steps: int) -> Schedule:
    """Two utterances of the longest kind fit into a row."""
    return Schedule(steps, longest=2 * max(len(u.codes) for u in material.corpus))


def _publish(shop: Workshop, out: Path, processes: int) -> None:
    """Write the voice and its card; `NOTES.md` in the work folder, if there is one, goes into the card."""
    codec = shop.codec()
    spoken = shop.spoken("train")
    references = {
        voice: Reference(REFERENCE_TEXT, codec.encode(torch.from_numpy(speak(voice, REFERENCE_TEXT))))
        for voice in shop.recipe.hours
    }
    usage = used_codes(spoken, codec.codebook_size)
    phones = _phones(shop, codec.codebook_size, processes)
    write_voice(out, "embedded", shop.target(), shop.draft(), codec, shop.reader(), references, usage, phones)
    write_baselines(out, shop.baselines, shop.target())
    write_checksums(out)  # without which it would not load
    _publish_map(out)
    hours = {
        v: sum(u.length for p in shards(shop.corpus) if p.parent.name == v for u in read_index(p)) / 16_000 / 3600
        for v in shop.recipe.hours
    }
    notes = shop.work / "NOTES.md"
    said = notes.read_text(encoding="utf-8").strip() if notes.exists() else ""
    facts = {"notes": said, "recipe": asdict(shop.recipe), "seed": shop.seed, "hours": hours, "utterances": len(spoken)}
    logs = {p.stem: read_log(p) for p in sorted(shop.work.glob("*.jsonl"))}
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(model_card(facts, logs, out), encoding="utf-8")
    write_checksums(out)
    print(f"published to {out}", flush=True)


def _phones(shop: Workshop, codebook_size: int, processes: int) -> Tensor | None:
    """The phone of each code, by speech that flite times; None where the recipe wants no speech timed."""
    chosen = [shard for shard in shards(shop.corpus) if int(shard.stem) < shop.recipe.timed_shards]
    if not chosen:
        return None
    align_shards(chosen, shop.work / "phones", processes)
    timed = []
    for shard in chosen:
        spoken = zip(read_codes(shop.work, "train", shard, shop.hop), read_phones(shard, shop.work / "phones"), strict=True)
        timed += [(codes, torch.from_numpy(phones)[_middles(len(codes), shop.hop, len(phones))]) for codes, phones in spoken]
    found, right, alike = phones_of_codes(timed, codebook_size)
    shares = f"{100 * right:.1f} % of the codes of {len(timed)} utterances, and of its class for {100 * alike:.1f} %"
    print(f"phones: a code's phone is that of its place for {shares}", flush=True)
    return found


def _middles(count: int, hop: int, timed: int) -> Tensor:
    """Which of `timed` phones is spoken in the middle of each of `count` codes."""
    return ((torch.arange(count) + 0.5) * hop / HOP).long().clamp(max=timed - 1)


def _publish_map(out: Path) -> None:
    """Put the map of the voice's codes beside it, which takes longer to make than a page should take to open."""
    voice = load_voice(str(out))
    eligible = voice.usage > 0
    for old in out.glob("atlas-*.safetensors"):
        old.unlink()
    lists = build_neighbours(voice.code_embedding, bounds("theta").low, eligible)
    load_or_build_atlas(lists, voice.code_embedding, eligible, out)


def _unpack(shop: Workshop, published: Path) -> None:
    """Checkpoints of the voice in `published`, as if its stages had just ended here; a draft of another kind, rank or taps than
    the recipe's is left out. Where the recipe's target has several times the layers, the published one grows to it, and the
    stages target and draft begin from what it was."""
    voice, recipe = load_voice(str(published)), shop.recipe
    if voice.codec.config != recipe.codec:
        raise InputError("codec", str(asdict(recipe.codec)), f"the published one's: {asdict(voice.codec.config)}")
    small = load_llama(published / "target", voice.vocabulary)
    times = _growth(small, recipe.target)
    target = deepened(small, times)
    reader = {"symbols": voice.reader.symbols, "durations": voice.reader.durations}
    stages = {
        "codec_tokens": ({"codec": voice.codec}, recipe.codec_token_steps),
        "codec_sound": ({"codec": voice.codec}, recipe.codec_sound_steps),
        "target": ({"target": target}, recipe.target_steps if times == 1 else 0),
    }
    if is_feature_draft(published / "draft"):
        draft = read_feature_model(published / "draft", small, voice.vocabulary)
        taps = tuple(times * layer for layer in draft.shape.tapped_layers)
        if (usual_taps(recipe.target.layers), recipe.draft_rank) == (taps, draft.shape.rank):
            stages["draft"] = {"draft": draft}, recipe.draft_steps if times == 1 else 0
    if there := [name for name in stages if (shop.work / f"{name}.safetensors").exists()]:
        raise InputError(
            "work", str(shop.work), f"a folder without training of its own, and this one has {there[0]}.safetensors"
        )
    shop.claim()
    for name, (modules, steps) in stages.items():
        meta = {"step": steps, "seconds": 0.0, "seed": shop.seed, "steps": steps}
        checkpoint.save(shop.work / f"{name}.safetensors", modules, {}, meta)
    write_json(shop.work / "reader.json", reader)
    print(f"unpacked {published} into {shop.work}", flush=True)


def _growth(published: LlamaForCausalLM, wanted: Shape) -> int:
    """How many times the layers of `published` the recipe wants; InputError where it wants what does not grow out of it."""
    config = published.config
    there = Shape(config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size)
    times = wanted.layers // there.layers
    if wanted != replace(there, layers=times * there.layers) or times < 1:
        allowed = f"layers in multiples of {there.layers}, all else as in {asdict(there)}"
        raise InputError("target", str(asdict(wanted)), f"what the published one can grow to: {allowed}")
    return times
