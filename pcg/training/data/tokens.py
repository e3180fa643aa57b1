"""Between codec and target: the corpus as speech codes and phoneme symbols, and the table of typical durations."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pcg.codec.embedded import EmbeddedCodec
from pcg.files import replacing, write_json
from pcg.text.prompt import PhonemeReader
from pcg.text.reading import PUNCTUATION, phonemise
from pcg.training.data.corpus import read_index, read_shard, shards

SPLITS = ("train", "held_out_sentences", "held_out_words")


@dataclass(frozen=True)
class TokenizedUtterance:
    """One utterance for the language model: its voice, text, symbol numbers and speech codes (int64)."""

    voice: str
    text: str
    symbols: list[int]
    codes: Tensor


def tokenize_corpus(directory: Path, corpus: Path, codec: EmbeddedCodec, device: str, together: int = 12) -> None:
    """Encode every shard that has no codes yet. Utterances of equal length share a batch, so none sees padding."""
    codec.eval().to(device)
    missing = [(s, p) for s in SPLITS for p in shards(corpus, s) if not _codes_path(directory, s, p).exists()]
    for first in range(0, len(missing), together):
        group = missing[first : first + together]
        waves = {(split, path): [w for _, w in read_shard(path)] for split, path in group}
        by_length: dict[int, list[tuple[Path, int]]] = defaultdict(list)
        for (split, path), list_of_waves in waves.items():
            for row, wave in enumerate(list_of_waves):
                by_length[-(-len(wave) // codec.hop)].append(((split, path), row))
        codes: dict[tuple[object, int], np.ndarray] = {}
        for length, rows in by_length.items():
            batch = torch.zeros(len(rows), length * codec.hop)
            for i, (key, row) in enumerate(rows):
                batch[i, : len(waves[key][row])] = torch.from_numpy(waves[key][row])
            codes |= dict(zip(rows, _encode_batch(codec, batch.to(device)), strict=True))
        for (split, path), list_of_waves in waves.items():
            joined = np.concatenate([codes[((split, path), row)] for row in range(len(list_of_waves))])
            with replacing(_codes_path(directory, split, path)) as temporary:
                np.save(temporary, joined, allow_pickle=False)
        print(f"tokens {min(first + together, len(missing))}/{len(missing)}", flush=True)


def read_spoken(directory: Path, corpus: Path, split: str, hop: int, reader: PhonemeReader) -> list[TokenizedUtterance]:
    """Every utterance of `split` with its symbols and codes."""
    number = {symbol: i for i, symbol in enumerate(reader.symbols)}
    spoken = []
    for path in shards(corpus, split):
        rows = zip(read_index(path), _symbols(directory, split, path), read_codes(directory, split, path, hop), strict=True)
        for utterance, symbols, codes in rows:
            numbers = [number[s] for s in symbols if s in number]
            spoken.append(TokenizedUtterance(path.parent.name, utterance.text, numbers, codes))
    return spoken


def read_codes(directory: Path, split: str, shard: Path, hop: int) -> tuple[Tensor, ...]:
    """The codes of each utterance of a shard, `[T]` int64."""
    codes = torch.from_numpy(np.load(_codes_path(directory, split, shard), allow_pickle=False).astype(np.int64))
    return codes.split([-(-utterance.length // hop) for utterance in read_index(shard)])


def make_reader(directory: Path, corpus: Path, hop: int, minimum_uses: int) -> PhonemeReader:
    """The symbols of the training text, and their durations by ridge regression of utterance length on symbol counts."""
    saved = directory / "reader.json"
    if saved.exists():
        return PhonemeReader(**{k: tuple(v) for k, v in json.loads(saved.read_text(encoding="utf-8")).items()})
    texts: list[list[str]] = []
    lengths: list[int] = []
    for path in shards(corpus):
        texts += _symbols(directory, "train", path)
        lengths += [-(-u.length // hop) for u in read_index(path)]
    uses = Counter(s for text in texts for s in text)
    symbols = tuple(sorted(s for s, n in uses.items() if n >= minimum_uses))
    write_json(saved, {"symbols": symbols, "durations": _durations(symbols, texts, lengths)})
    return make_reader(directory, corpus, hop, minimum_uses)


def used_codes(spoken: Sequence[TokenizedUtterance], codebook_size: int) -> Tensor:
    """How often each code occurs, `[codebook_size]`."""
    return torch.bincount(torch.cat([s.codes for s in spoken]), minlength=codebook_size)


def _durations(symbols: Sequence[str], texts: Sequence[Sequence[str]], lengths: Sequence[int]) -> list[float]:
    column = {symbol: i for i, symbol in enumerate(symbols)}
    counts = np.zeros((len(texts), len(symbols) + 1), dtype=np.float32)
    counts[:, -1] = 1
    for row, text in enumerate(texts):
        for symbol in text:
            if symbol in column:
                counts[row, column[symbol]] += 1
    ridge = 10.0 * np.eye(len(symbols) + 1)
    weights = np.linalg.solve(counts.T @ counts + ridge, counts.T @ np.array(lengths, dtype=np.float64))
    return [round(float(max(0.05, w)), 4) for w in weights[:-1]]


def _symbols(directory: Path, split: str, shard: Path) -> list[list[str]]:
    saved = _codes_path(directory, split, shard).with_suffix(".symbols.json")
    if not saved.exists():
        texts = [u.text for u in read_index(shard)]
        write_json(saved, [phonemise(t if t[-1] in PUNCTUATION else t + ".") for t in texts])
    return json.loads(saved.read_text(encoding="utf-8"))


def _codes_path(directory: Path, split: str, shard: Path) -> Path:
    return directory / "tokens" / split / shard.parent.name / shard.name


@torch.inference_mode()
def _encode_batch(codec: EmbeddedCodec, waves: Tensor) -> list[np.ndarray]:
    codes = codec.fsq.codes(codec.quantize(codec.log_mel(waves)))
    return list(codes.cpu().numpy().astype(np.uint16))
