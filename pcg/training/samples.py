"""Speech codes in shards: recordings and a corpus that a codec encodes, and the target's own samples."""

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.codec.codec import Codec
from pcg.decode.speculative import Request, decode_on_host
from pcg.errors import InputError, PCGError
from pcg.files import write_json
from pcg.models.hub import weights_digest
from pcg.models.llama import DecodingLlama
from pcg.sampling import Plain
from pcg.synthesis.voice import EMBEDDED, open_codec
from pcg.text.prompt import PhonemeReader, Prompt, PromptReader
from pcg.training.loop import agrees, generator
from pcg.training.shards import Utterance, is_whole, read_shard, shards, write_shard
from pcg.training.tokens import TokenizedUtterance, by_voice, lay_out

SHARD = 500
SOUNDS = (".wav", ".flac")
MIN_SECONDS, MAX_SECONDS = 1.0, 30.0
MANIFEST = "tokens.json"


class TranscribedRecording(NamedTuple):
    """One utterance: who speaks, and the files of its sound and its words."""

    voice: str
    sound: Path
    words: Path


def find_recordings(speech: Path) -> list[TranscribedRecording]:
    """Find every recording (WAV, FLAC) below `speech` that has a transcript beside it, in the order of their names.

    LibriTTS's layout: READER/CHAPTER/name.wav and name.normalized.txt, and the reader is the voice. Any other: name.wav and
    name.txt, and the folder around them is the voice.
    """
    found = []
    for sound in sorted(path for path in speech.rglob("*") if path.suffix.lower() in SOUNDS):
        for suffix, folder in ((".normalized.txt", sound.parent.parent), (".txt", sound.parent)):
            if sound.with_suffix(suffix).is_file():
                found.append(TranscribedRecording(folder.name, sound, sound.with_suffix(suffix)))
                break
    if not found:
        raise InputError("speech", str(speech), "a folder of WAV or FLAC files, each with its words in a .txt beside it")
    return found


def prepare_tokens(speech: Path, codec_source: str, tokens: Path, device: str) -> tuple[int, int]:
    """Encode the recordings of `speech`, trimmed and brought to one loudness, as references are, into shards in `tokens`; those
    that exist are kept. A recording that is too short, too long, unreadable or without words is left out.

    Args:
        codec_source: "embedded", or the folder of a codec.

    Returns:
        The number of utterances, and of recordings that were left out.

    Raises:
        InputError: if `tokens` holds codes of other recordings or of another codec.
    """
    recordings, codec = find_recordings(speech), open_codec(codec_source, device)
    folder = EMBEDDED / "codec" if codec_source == "embedded" else Path(codec_source)
    made_from = {"recordings": len(recordings), "codes": codec.codebook_size, "codec": weights_digest(folder)}
    if not agrees(tokens / MANIFEST, made_from):
        raise InputError("tokens", str(tokens), "a new folder, or one made from the same recordings and codec")
    count = 0
    for number, first in enumerate(range(0, len(recordings), SHARD)):
        shard = tokens / f"{number:05d}.npy"
        if not is_whole(shard):
            utterances = []
            for voice, sound, words in recordings[first : first + SHARD]:
                with suppress(OSError, ValueError, InputError):
                    text = " ".join(words.read_text(encoding="utf-8").split())
                    samples = load_audio(sound, codec.sample_rate, MAX_SECONDS + 1)
                    samples = normalise_loudness(trim(samples, codec.sample_rate))
                    if text and MIN_SECONDS <= len(samples) / codec.sample_rate <= MAX_SECONDS:
                        utterances.append(encoded(voice, text, torch.from_numpy(samples), codec))
            write_shard(shard, utterances)
        count += len(read_shard(shard))
        print(f"tokens: {min(first + SHARD, len(recordings))} of {len(recordings)} recordings", flush=True)
    return count, len(recordings) - count


def encoded(voice: str, text: str, samples: Tensor, codec: Codec) -> Utterance:
    """Return the utterance with the codes of `samples [N]`, each below 65,536."""
    return Utterance(voice, text, codec.encode(samples).cpu().numpy().astype(np.uint16))


def encode_corpus(folder: Path, corpus: Path, split: str, codec: Codec, count: int | None = None) -> None:
    """Encode the first `count` shards of a split of `corpus` (all by default) into shards in `folder`, if not yet there."""
    chosen = shards(corpus, split)[:count]
    if not chosen:
        raise InputError("work", str(corpus.parent), "a folder whose corpus/ was made by `pcg train corpus`")
    write_json(folder / MANIFEST, {"shards": len(chosen), "codes": codec.codebook_size})
    for number, shard in enumerate(chosen):
        path = folder / f"{shard.stem}-{shard.parent.name}.npy"
        if not is_whole(path):
            write_shard(path, [encoded(u.voice, u.text, u.samples(), codec) for u in read_shard(shard)])
            print(f"tokens: {split} {number + 1} of {len(chosen)}", flush=True)


def read_manifest(tokens: Path) -> dict[str, int | str]:
    """Read what the shards in `tokens` were made from; raise InputError unless they are all there."""
    try:
        made_from = json.loads((tokens / MANIFEST).read_text(encoding="utf-8"))
        count = int(made_from["shards"]) if "shards" in made_from else -(-int(made_from["recordings"]) // SHARD)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("tokens", str(tokens), "what `pcg train tokens` wrote, or a voice's tokens/train") from error
    if lacking := max(0, count - len(list(tokens.glob("[0-9]*.json")))):
        raise InputError("tokens", str(tokens), f"whole, and lacks {lacking} of {count} shards: let `pcg train tokens` go on")
    return made_from


def read_tokens(folder: Path, reader: PromptReader, longest: int | None = None) -> list[TokenizedUtterance]:
    """Read every utterance in `folder` of at most `longest` codes whose text `reader` can read."""
    spoken = []
    for shard in sorted(folder.glob("[0-9]*.json")):
        for utterance in read_shard(shard):
            if longest is None or len(utterance.values) <= longest:
                with suppress(PCGError):
                    known = isinstance(reader, PhonemeReader)
                    read = (reader.read if known else reader.tokens_for)(utterance.text)
                    symbols = read if known else []
                    codes = torch.from_numpy(utterance.values.astype(np.int64))
                    spoken.append(TokenizedUtterance(utterance.voice, utterance.text, symbols, codes))
    return spoken


SAMPLE_SHARD, SAMPLES_AT_ONCE = 256, 64
SHORTEST = 6
"""Codes of a sample that is kept."""


def own_samples(
    folder: Path,
    target: DecodingLlama,
    spoken: Sequence[TokenizedUtterance],
    reader: PromptReader,
    texts: int,
    temperature: float = 0.8,
    seed: int = 0,
) -> list[TokenizedUtterance]:
    """Let the target say `texts` texts of `spoken` into shards, each after a reference of the same voice."""
    voices = by_voice(spoken)
    for number, done in enumerate(range(0, texts, SAMPLE_SHARD)):
        shard = folder / f"{number:05d}.npy"
        if is_whole(shard):
            continue
        # Coins of its own: shards do not depend on each other.
        rng, coins = random.Random(seed * 7919 + number), generator(seed, number)
        pairs = [rng.sample(voices[rng.choice(list(voices))], 2) for _ in range(min(SAMPLE_SHARD, texts - done))]
        pairs.sort(key=lambda pair: sum(len(u.codes) for u in pair))
        samples = []
        for first in range(0, len(pairs), SAMPLES_AT_ONCE):
            group = pairs[first : first + SAMPLES_AT_ONCE]
            prompts = [lay_out(a, [b], reader) for a, b in group]
            limit = int(1.5 * max(len(b.codes) for _, b in group)) + 20
            for (_, b), codes in zip(group, _sample(target, prompts, limit, temperature, coins), strict=True):
                if codes is not None and len(codes) >= SHORTEST:
                    samples.append(Utterance(b.voice, b.text, np.array(codes, np.uint16)))
        write_shard(shard, samples)
        print(f"samples: {min(done + SAMPLE_SHARD, texts)} of {texts}", flush=True)
    return read_tokens(folder, reader)


def _sample(
    target: DecodingLlama, prompts: Sequence[Prompt], limit: int, temperature: float, coins: torch.Generator
) -> list[list[int] | None]:
    """Decode all `prompts` at once; return the codes of each, or None where no end of speech came within `limit`."""
    seeds = torch.randint(2**62, (len(prompts),), generator=coins).tolist()
    generators = (torch.Generator().manual_seed(seed) for seed in seeds)
    requests = [Request(prompt, limit, own, Plain(temperature)) for prompt, own in zip(prompts, generators, strict=True)]
    codes: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    for step in decode_on_host(target, None, requests):
        for row, round_ in step.items():
            codes[row] += round_.tokens
            ended[row] |= round_.ended
    return [own if done else None for own, done in zip(codes, ended, strict=True)]
