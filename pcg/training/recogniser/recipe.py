"""The recipe of the embedded recogniser, over the corpus of the voice: its stages in order, each resumable.

1. voices: espeak-ng and held-out voices; a share of the corpus through the codec and back.
2. alignments, phones: which sound is spoken when (the encoder).
3. ctc: how it is spelled (the encoder).
4. lm: what was meant (projector and language model, the encoder frozen).
5. together: both learn on, side by side.
6. publish; the list of words comes from text alone (`publish_words`).

`deepen` goes on from what is published, apart from these.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import safe_open

from pcg.asr.embedded import PARTS, load_parts, save_recogniser
from pcg.asr.lexicon import FILE as WORDS
from pcg.asr.network.conformer import ConformerCTC, EncoderConfig
from pcg.errors import InputError
from pcg.files import replacing
from pcg.files.checksums import renew_checksums, write_checksums
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.training.data.alignments import align_shards
from pcg.training.data.corpus import HELD_OUT, shards
from pcg.training.data.phones import train_recogniser_phones
from pcg.training.data.sentences import build_pool, dictionary
from pcg.training.loop import read_log
from pcg.training.recogniser.bigrams import write_bigrams
from pcg.training.recogniser.deeper import train_recogniser_deeper
from pcg.training.recogniser.heard import HELD_OUT_VOICES, make_round_trips, make_voices
from pcg.training.recogniser.hearings import Hearing, read_hearings
from pcg.training.recogniser.stages import (
    CTC,
    LM,
    ReaderShape,
    publish_recogniser,
    train_recogniser_ctc,
    train_recogniser_lm,
    trained_encoder,
)
from pcg.training.recogniser.together import train_recogniser_together, unpack_recogniser
from pcg.training.voice.card import recogniser_card

NAME = "embedded recogniser 1"
LONGEST_WORD = 24


@dataclass(frozen=True)
class JudgeRecipe:
    """Every choice that shapes the recogniser. aligned_shards: of each voice. deeper: how many times the layers of the
    published language model stage `deeper-recogniser` gives to its own."""

    encoder: EncoderConfig = EncoderConfig()
    reader: ReaderShape = ReaderShape()
    aligned_shards: int = 10
    phone_steps: int = 500
    ctc_steps: int = 2600
    lm_steps: int = 1500
    together_steps: int = 2200
    deeper: int = 4
    deeper_steps: int = 400


def train_recogniser(work: Path, out: Path, device: str, seed: int, processes: int, recipe: JudgeRecipe | None = None) -> None:
    """Run all stages in `work`, whose `corpus` is there, and write the recogniser to `out`; what is done is not done again."""
    recipe, spoken, timed = recipe or JudgeRecipe(), _speech(work, device, seed, processes), work / "phones"
    torch.manual_seed(seed)
    encoder = ConformerCTC(recipe.encoder)
    if not (work / f"{CTC}.safetensors").exists():
        chosen = [shard for shard in spoken if int(shard.stem) < recipe.aligned_shards]
        align_shards(chosen, timed, processes)
        encoder = train_recogniser_phones(work, encoder, chosen, timed, recipe.phone_steps, seed, device)
    train, held_out = _hearings(work)
    train_recogniser_ctc(work, encoder, train, held_out, recipe.ctc_steps, seed, device)
    encoder = trained_encoder(work, recipe.encoder)
    reader, subwords = train_recogniser_lm(work, encoder, recipe.reader, train, held_out, recipe.lm_steps, seed, device)
    encoder.requires_grad_(True)
    train_recogniser_together(work, encoder, reader, subwords, train, held_out, recipe.together_steps, seed, device)
    publish(work, out, seed, recipe)


def deepen(
    work: Path, published: Path, out: Path, device: str, seed: int, processes: int, recipe: JudgeRecipe | None = None
) -> None:
    """Write to `out` the recogniser in `published` with a deeper language model, trained in `work`, whose `corpus` is there."""
    recipe = recipe or JudgeRecipe()
    _speech(work, device, seed, processes)
    parts, (train, held_out) = load_parts(published), _hearings(work)
    lm = train_recogniser_deeper(work, parts, recipe.deeper, train, held_out, recipe.deeper_steps, seed, device)
    save_recogniser(out, f"{parts.name}, {recipe.deeper} times the layers", parts.encoder, parts.projector, lm, parts.subwords)
    write_checksums(out)


def _speech(work: Path, device: str, seed: int, processes: int) -> list[Path]:
    """What the recogniser hears, made where it is missing; the shards of the voice's corpus."""
    corpus, more = work / "corpus", work / "recogniser_corpus"
    spoken = shards(corpus)
    if not spoken:
        raise InputError("work", str(work), "a folder whose corpus `pcg train corpus` has made")
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))
    make_voices(more, corpus, seed, processes)
    codec = load_codec(EMBEDDED / "codec")
    for split in ("train", *HELD_OUT):
        make_round_trips(more, corpus, codec, seed, split)
    return spoken


def _hearings(work: Path) -> tuple[list[Hearing], dict[str, list[Hearing]]]:
    """What it learns from, and the held-out sets."""
    corpus, more = work / "corpus", work / "recogniser_corpus"
    return read_hearings([corpus, more], "train"), checks(corpus, more)


def unpack(work: Path, published: Path, seed: int, recipe: JudgeRecipe | None = None) -> None:
    """Checkpoints of the recogniser in `published`, so that `train_recogniser` goes on from it together."""
    recipe = recipe or JudgeRecipe()
    if there := [p.name for p in sorted(work.glob("recogniser_*.safetensors"))]:
        raise InputError("work", str(work), f"a folder without a recogniser's training of its own, and this one has {there[0]}")
    unpack_recogniser(work, published, {CTC: recipe.ctc_steps, LM: recipe.lm_steps}, seed)
    print(f"unpacked {published} into {work}", flush=True)


def publish_words(prose: Path | None, out: Path, seed: int) -> None:
    """Write the word list in `out`: what the corpus may say in training, spoken or not, and the dictionary. No sentence in it
    is held out; the dictionary's words may be."""
    if prose is None or not prose.is_file():
        raise InputError("prose", str(prose), "a text file with one sentence a line")
    words, pairs = write_bigrams(out / WORDS, build_pool(prose, seed).train, dictionary(LONGEST_WORD))
    renew_checksums(out / WORDS)
    print(f"words: {words} words and {pairs} pairs in {out / WORDS}", flush=True)


def publish(work: Path, out: Path, seed: int, recipe: JudgeRecipe) -> None:
    """Write what is trained in `work`, and its card; `RECOGNISER_NOTES.md` in there, if there is one, goes into the card."""
    publish_recogniser(work, out, NAME, recipe.encoder, recipe.reader, seed)
    parameters = {}
    for part in PARTS:
        with safe_open(out / part / "model.safetensors", framework="pt") as file:
            parameters[part] = sum(prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118
    logs = {p.stem: read_log(p) for p in sorted(work.glob("recogniser_*.jsonl"))}
    notes = work / "RECOGNISER_NOTES.md"
    said = notes.read_text(encoding="utf-8").strip() if notes.exists() else ""
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(recogniser_card(parameters, logs, seed, said), encoding="utf-8")
    write_checksums(out)
    print(f"published to {out}", flush=True)


def checks(corpus: Path, more: Path) -> dict[str, list[Hearing]]:
    """What no training hears: the corpus's held-out sentences and words, those through the codec, and the held-out voices."""
    voices = read_hearings([more], HELD_OUT_VOICES)
    return {
        "sentences": read_hearings([corpus], "held_out_sentences"),
        "words": read_hearings([corpus], "held_out_words"),
        "codec": read_hearings([more], "held_out_sentences"),
        **{name: [h for h in voices if h.voice == name] for name in ("espeak", "kal")},
    }
