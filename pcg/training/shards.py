"""Utterances in shards: `NAME.npy` (samples or speech codes, back to back) and `NAME.json` (voice, text, length of each), which
is written last: a shard that has one is whole, and a killed run resumes at the first that lacks it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pcg.errors import AssetError
from pcg.files import replacing, write_json

FULL_SCALE = 32767


@dataclass(frozen=True)
class Utterance:
    """One utterance: its voice, its text, and its samples (int16) or speech codes (uint16), `values [N]`."""

    voice: str
    text: str
    values: np.ndarray

    def samples(self) -> Tensor:
        """Return the samples, float32 `[N]` within -1..1."""
        return torch.from_numpy(self.values.astype(np.float32) / (FULL_SCALE + 1))


def spoken_utterance(voice: str, text: str, samples: np.ndarray) -> Utterance:
    """Return an utterance of float samples `[N]`, which are cut to -1..1."""
    return Utterance(voice, text, (samples.clip(-1, 1) * FULL_SCALE).astype(np.int16))


def is_whole(shard: Path) -> bool:
    return shard.with_suffix(".json").exists()


def write_shard(shard: Path, utterances: Sequence[Utterance]) -> None:
    """Write utterances of one kind as `read_shard` reads them."""
    values = np.concatenate([u.values for u in utterances]) if utterances else np.zeros(0, np.uint16)
    with replacing(shard.with_suffix(".npy")) as temporary:
        np.save(temporary, values, allow_pickle=False)
    write_json(shard.with_suffix(".json"), [{"voice": u.voice, "text": u.text, "length": len(u.values)} for u in utterances])


def read_shard(shard: Path) -> list[Utterance]:
    """Read a shard, its values when they are used, its voice by default from the folder's name. Raises AssetError."""
    try:
        rows = json.loads(shard.with_suffix(".json").read_text(encoding="utf-8"))
        values = np.load(shard.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
        ends = np.cumsum([row["length"] for row in rows], dtype=np.int64)
        if values.dtype not in (np.int16, np.uint16) or values.shape != (ends[-1] if rows else 0,):
            raise ValueError("its index tells of other values")
        parts = zip(rows, ends, strict=True)
        return [
            Utterance(row.get("voice", shard.parent.name), row["text"], values[end - row["length"] : end]) for row, end in parts
        ]
    except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
        raise AssetError(f"The shard {shard} is damaged; without {shard.stem}.json it is made again.") from error


def shards(corpus: Path, split: str = "train") -> list[Path]:
    """List the shards `VOICE/NAME.npy` of a split ("train", "held_out_sentences", "held_out_words"), voices in turn."""
    return sorted((corpus / split).glob("*/*.npy"), key=lambda path: (path.stem, path.parent.name))


def read_corpus(corpus: Path, split: str = "train") -> list[Utterance]:
    return [utterance for shard in shards(corpus, split) for utterance in read_shard(shard)]
