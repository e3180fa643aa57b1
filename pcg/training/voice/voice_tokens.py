"""A corpus as the codes of a finished voice, in shards of their own; those that are there are not made again."""

import hashlib
from pathlib import Path

import torch

from pcg.errors import InputError
from pcg.models.hub import add_content, weights_digest
from pcg.synthesis.voice import Voice
from pcg.training.data.corpus import read_shard, shards
from pcg.training.data.prepare import read_shards, tokens_path, write_shard
from pcg.training.data.tokens import TokenizedUtterance


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
