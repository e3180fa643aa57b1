"""Recordings with transcripts -> speech codes in shards, which a draft's training reads.

A shard is `00000.npy` (codes, back to back) beside `00000.json` (voice, text and number of codes of each utterance). The index
is written last, so a shard that has one is whole, and a run that was killed goes on at the first that has none.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.codec.codec import Codec
from pcg.errors import AssetError, InputError, PCGError
from pcg.files import replacing, write_json
from pcg.models.hub import weights_digest
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.text.prompt import PhonemeReader, PromptReader
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.note import agrees

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


@dataclass(frozen=True)
class Prepared:
    """What became of the recordings of a folder."""

    utterances: int
    left_out: int
    hours: float


def find_recordings(speech: Path) -> list[TranscribedRecording]:
    """Every recording below `speech` that has a transcript beside it, in the order of their names.

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


def prepare_tokens(
    speech: Path, codec: Codec, digest: str, tokens: Path, progress: Callable[[int, int], None] | None = None
) -> Prepared:
    """Encode the recordings of `speech` into shards in `tokens`, those that are there already excepted.

    Each is trimmed and brought to one loudness, as references are. What is too short, too long, empty or unreadable is left
    out. digest: tells the codec from others (`open_codec`). progress(shards done, of all). Raises InputError if `tokens` holds
    codes of other recordings or of another codec.
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
    count = -(-len(recordings) // SHARD)
    for number in range(count):
        shard = tokens_path(tokens, number)
        if not shard.exists():
            encoded = (_encode(recording, codec) for recording in recordings[number * SHARD : (number + 1) * SHARD])
            write_shard(shard, [utterance for utterance in encoded if utterance])
        if progress:
            progress(number + 1, count)
    index = [row for number in range(count) for row in _read_index(tokens_path(tokens, number))]
    hours = sum(row.length for row in index) * codec.hop / codec.sample_rate / 3600
    return Prepared(len(index), len(recordings) - len(index), hours)


def open_codec(source: str, device: str) -> tuple[Codec, str]:
    """The codec of the shipped voice ("embedded") or of a folder, and a SHA-256 of its files."""
    folder = EMBEDDED / "codec" if source == "embedded" else Path(source)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        digest = weights_digest(folder)
    except (OSError, ValueError) as error:
        raise InputError("codec", source, "'embedded' or the folder of a codec") from error
    if "levels" in config and "model_type" not in config:
        return load_codec(folder).to(device), digest
    from pcg.codec.xcodec2 import load_xcodec2

    return load_xcodec2(folder, device), digest


def read_manifest(tokens: Path) -> dict[str, object]:
    """What the shards in `tokens` were made from, once they are all there. Raises InputError where they are not."""
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
    """The index of shard `number`; it is there when the shard is whole."""
    return folder / f"{number:05d}.json"


def write_shard(shard: Path, spoken: Sequence[TokenizedUtterance]) -> None:
    """Write codes, each below 65,536, and their index at `shard`."""
    joined = torch.cat([s.codes for s in spoken]) if spoken else torch.zeros(0, dtype=torch.int64)
    with replacing(shard.with_suffix(".npy")) as temporary:
        np.save(temporary, joined.numpy().astype(np.uint16), allow_pickle=False)
    write_json(shard, [asdict(_Entry(s.voice, s.text, len(s.codes))) for s in spoken])


def read_shards(folder: Path, reader: PromptReader, longest: int | None = None) -> list[TokenizedUtterance]:
    """Every utterance in `folder` of at most `longest` codes whose text `reader` can read; symbols are noted for a
    PhonemeReader."""
    spoken = []
    for shard in sorted(folder.glob("[0-9]*.json")):
        index, start = _read_index(shard), 0
        codes = _read_codes(shard, sum(row.length for row in index))
        for row in index:
            own, start = codes[start : start + row.length], start + row.length
            symbols = _symbols(row.text, reader)
            if symbols is not None and (longest is None or row.length <= longest):
                spoken.append(TokenizedUtterance(row.voice, row.text, symbols, own))
    return spoken


@dataclass(frozen=True)
class _Entry:
    voice: str
    text: str
    length: int


def _read_index(shard: Path) -> list[_Entry]:
    try:
        return [_Entry(**row) for row in json.loads(shard.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise AssetError(f"The index {shard} is damaged; without it, its shard is made again.") from error


def _read_codes(shard: Path, count: int) -> Tensor:
    try:
        codes = np.load(shard.with_suffix(".npy"), allow_pickle=False)
        if codes.shape != (count,) or codes.dtype != np.uint16:
            raise ValueError(f"{count} codes should be there")
    except (OSError, ValueError, EOFError) as error:
        raise AssetError(f"The codes beside {shard} are damaged; without {shard.name}, they are made again.") from error
    return torch.from_numpy(codes.astype(np.int64))


def _symbols(text: str, reader: PromptReader) -> list[int] | None:
    """Symbols for a reader that has such, none for another; None for a text that cannot be read."""
    try:
        if isinstance(reader, PhonemeReader):
            return reader.read(text)
        reader.tokens_for(text)
    except PCGError:
        return None
    return []


def _encode(recording: TranscribedRecording, codec: Codec) -> TokenizedUtterance | None:
    try:
        text = " ".join(recording.words.read_text(encoding="utf-8").split())
        samples = load_audio(recording.sound, codec.sample_rate, MAX_SECONDS + 1)
    except (OSError, ValueError, InputError):
        return None
    speech = normalise_loudness(trim(samples, codec.sample_rate))
    if not text or not MIN_SECONDS <= len(speech) / codec.sample_rate <= MAX_SECONDS:
        return None
    return TokenizedUtterance(recording.voice, text, [], codec.encode(torch.from_numpy(speech)))
