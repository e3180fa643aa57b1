"""Speech codes in shards: recordings and a corpus that a codec encodes, and the target's own samples.

A shard is `00000.json` (voice, text and number of codes of each utterance) beside `00000.npy` (uint16 codes, back to back).
"""

import hashlib
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.codec.codec import Codec
from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import autoregressive
from pcg.errors import AssetError, InputError, PCGError
from pcg.files import replacing, write_json
from pcg.models.hub import weights_digest
from pcg.models.llama import DecodingLlama
from pcg.sampling import Plain
from pcg.synthesis.voice import EMBEDDED
from pcg.text.prompt import PhonemeReader, Prompt, PromptReader
from pcg.training.corpus import read_shard, shards
from pcg.training.loop import agrees, generator
from pcg.training.tokens import TokenizedUtterance, lay_out

SHARD = 500
SOUNDS = (".wav", ".flac")
MIN_SECONDS, MAX_SECONDS = 1.0, 30.0
MANIFEST = "tokens.json"


@dataclass(frozen=True)
class TranscribedRecording:
    """One utterance: who speaks, and the files of its sound and its words."""

    voice: str
    sound: Path
    words: Path


def find_recordings(speech: Path) -> list[TranscribedRecording]:
    """Find every recording below `speech` that has a transcript beside it, in the order of their names.

    LibriTTS's layout: READER/CHAPTER/name.wav and name.normalized.txt, and the reader is the voice. Any other: name.wav and
    name.txt, and the folder around them is the voice. FLAC is read as WAV is.
    """
    found = []
    for sound in sorted(path for path in speech.rglob("*") if path.suffix.lower() in SOUNDS):
        normalised, plain = sound.with_suffix(".normalized.txt"), sound.with_suffix(".txt")
        if normalised.is_file():
            found.append(TranscribedRecording(sound.parent.parent.name, sound, normalised))
        elif plain.is_file():
            found.append(TranscribedRecording(sound.parent.name, sound, plain))
    if not found:
        raise InputError("speech", str(speech), "a folder of WAV or FLAC files, each with its words in a .txt beside it")
    return found


def prepare_tokens(speech: Path, codec: Codec, digest: str, tokens: Path) -> tuple[int, int, float]:
    """Encode the recordings of `speech` into shards in `tokens`; shards that exist are kept.

    Each recording is trimmed and brought to one loudness, as references are. A recording that is too short, too long,
    unreadable or without words is left out.

    Args:
        digest: of the codec's files (`codec_digest`).

    Returns:
        The number of utterances, of recordings that were left out, and the hours of speech.

    Raises:
        InputError: if `tokens` holds codes of other recordings or of another codec.
    """
    recordings = find_recordings(speech)
    names = "\n".join(r.sound.relative_to(speech).as_posix() for r in recordings)
    made_from = {
        "recordings": len(recordings),
        "names": hashlib.sha256(names.encode()).hexdigest(),
        "codec": digest,
        "codes": codec.codebook_size,
        "codes_per_second": codec.sample_rate / codec.hop,
    }
    if not agrees(tokens / MANIFEST, made_from):
        raise InputError("tokens", str(tokens), "a new folder, or one made from the same recordings and codec")
    lengths: list[int] = []
    for number, first in enumerate(range(0, len(recordings), SHARD)):
        shard = tokens_path(tokens, number)
        if not shard.exists():
            utterances = []
            for recording in recordings[first : first + SHARD]:
                with suppress(OSError, ValueError, InputError):
                    text = " ".join(recording.words.read_text(encoding="utf-8").split())
                    samples = load_audio(recording.sound, codec.sample_rate, MAX_SECONDS + 1)
                    samples = normalise_loudness(trim(samples, codec.sample_rate))
                    if text and MIN_SECONDS <= len(samples) / codec.sample_rate <= MAX_SECONDS:
                        codes = codec.encode(torch.from_numpy(samples))
                        utterances.append(TokenizedUtterance(recording.voice, text, [], codes))
            write_shard(shard, utterances)
        lengths += [length for _, _, length in read_index(shard)]
        print(f"tokens: {min(first + SHARD, len(recordings))} of {len(recordings)} recordings", flush=True)
    return len(lengths), len(recordings) - len(lengths), sum(lengths) * codec.hop / codec.sample_rate / 3600


def encode_corpus(folder: Path, corpus: Path, split: str, codec: Codec, count: int | None = None) -> None:
    """Encode the first `count` shards of a split of `corpus` (all by default), voices in turn, into shards in `folder`; shards
    that exist are kept."""
    chosen = shards(corpus, split)[:count]
    if not chosen:
        raise InputError("work", str(corpus.parent), "a folder whose corpus/ was made by `pcg train corpus`")
    for number, shard in enumerate(chosen):
        path = folder / f"{shard.stem}-{shard.parent.name}.json"
        if not path.exists():
            encoded = ((u.text, codec.encode(torch.from_numpy(wave)).cpu()) for u, wave in read_shard(shard))
            write_shard(path, [TokenizedUtterance(shard.parent.name, text, [], codes) for text, codes in encoded])
            print(f"tokens: {split} {number + 1} of {len(chosen)}", flush=True)


def codec_digest(source: str) -> str:
    """Return a SHA-256 of the files of the shipped voice's codec ("embedded"), or of the codec in a folder."""
    try:
        return weights_digest(EMBEDDED / "codec" if source == "embedded" else Path(source))
    except OSError as error:
        raise InputError("codec", source, "'embedded' or the folder of a codec") from error


def read_manifest(tokens: Path) -> dict[str, object]:
    """Read what the shards in `tokens` were made from; raise InputError unless they are all there."""
    try:
        found = json.loads((tokens / MANIFEST).read_text(encoding="utf-8"))
        recordings, _ = int(found["recordings"]), int(found["codes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("tokens", str(tokens), "a folder that `pcg train tokens` wrote") from error
    count = -(-recordings // SHARD)
    if there := count - sum(tokens_path(tokens, number).exists() for number in range(count)):
        raise InputError("tokens", str(tokens), f"whole, and lacks {there} of {count} shards: let `pcg train tokens` go on")
    return found


def tokens_path(folder: Path, number: int) -> Path:
    """Return the path of the index of shard `number`, which exists when the shard is whole."""
    return folder / f"{number:05d}.json"


def write_shard(shard: Path, spoken: Sequence[TokenizedUtterance]) -> None:
    """Write codes, each below 65,536, and their index at `shard`."""
    joined = torch.cat([s.codes for s in spoken]) if spoken else torch.zeros(0, dtype=torch.int64)
    with replacing(shard.with_suffix(".npy")) as temporary:
        np.save(temporary, joined.numpy().astype(np.uint16), allow_pickle=False)
    write_json(shard, [{"voice": s.voice, "text": s.text, "length": len(s.codes)} for s in spoken])


def read_shards(folder: Path, reader: PromptReader, longest: int | None = None) -> list[TokenizedUtterance]:
    """Read every utterance in `folder` of at most `longest` codes whose text `reader` can read; symbols are noted for a
    PhonemeReader."""
    spoken = []
    for shard in sorted(folder.glob("[0-9]*.json")):
        index = read_index(shard)
        lengths = [length for _, _, length in index]
        try:
            codes = np.load(shard.with_suffix(".npy"), allow_pickle=False)
            if codes.shape != (sum(lengths),) or codes.dtype != np.uint16:
                raise ValueError(f"{sum(lengths)} codes should be there")
        except (OSError, ValueError, EOFError) as error:
            raise AssetError(f"The codes beside {shard} are damaged; without {shard.name}, they are made again.") from error
        rows = torch.from_numpy(codes.astype(np.int64)).split(lengths)
        for (voice, text, _), row in zip(index, rows, strict=True):
            if longest is not None and len(row) > longest:
                continue
            symbols: list[int] = []
            try:
                if isinstance(reader, PhonemeReader):
                    symbols = reader.read(text)
                else:
                    reader.tokens_for(text)
            except PCGError:
                continue
            spoken.append(TokenizedUtterance(voice, text, symbols, row))
    return spoken


def read_index(shard: Path) -> list[tuple[str, str, int]]:
    """Read voice, text and number of codes of each utterance."""
    try:
        rows = json.loads(shard.read_text(encoding="utf-8"))
        return [(row["voice"], row["text"], row["length"]) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AssetError(f"The index {shard} is damaged; without it, its shard is made again.") from error


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
    """Let the target say `texts` texts of `spoken`, each after a reference of the same voice; shards in `folder` that exist are
    kept, and a sample without an end is left out."""
    voices = by_voice(spoken)
    for number, done in enumerate(range(0, texts, SAMPLE_SHARD)):
        path = tokens_path(folder, number)
        if path.exists():
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
                    samples.append(TokenizedUtterance(b.voice, b.text, b.symbols, codes))
        write_shard(path, samples)
        print(f"samples: {min(done + SAMPLE_SHARD, texts)} of {texts}", flush=True)
    return read_shards(folder, reader)


def by_voice(spoken: Sequence[TokenizedUtterance]) -> dict[str, list[TokenizedUtterance]]:
    """Group utterances by voice; voices with a single utterance are left out."""
    groups: dict[str, list[TokenizedUtterance]] = {}
    for utterance in spoken:
        groups.setdefault(utterance.voice, []).append(utterance)
    return {voice: group for voice, group in sorted(groups.items()) if len(group) > 1}


def _sample(
    model: DecodingLlama, prompts: Sequence[Prompt], limit: int, temperature: float, coins: torch.Generator
) -> list[Tensor | None]:
    """Decode all `prompts` at once; return the codes of each `[T]`, or None where no end of speech came within `limit`."""
    target = ModelRunner(model, prompts, limit + 1)
    target.prefill()
    seeds = torch.randint(2**62, (len(prompts),), generator=coins).tolist()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    spoken: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    for step in autoregressive(target, begin(Plain(temperature), [limit] * len(prompts), generators)):
        for row, round_ in step.items():
            spoken[row] += round_.tokens
            ended[row] |= round_.ended
    return [torch.tensor(codes) if done else None for codes, done in zip(spoken, ended, strict=True)]
