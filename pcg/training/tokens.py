"""Training batches: rows of utterances of one voice, one after another, in the prompt's shape; and the reader that is learned.

Every speech code of a row is learned from.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from pcg.files import write_json
from pcg.text.prompt import PhonemeReader, Prompt, PromptReader, Reference
from pcg.text.reading import phonemise


@dataclass(frozen=True)
class TokenizedUtterance:
    """One utterance for the language model: its voice, text, symbol numbers and speech codes (int64)."""

    voice: str
    text: str
    symbols: list[int]
    codes: Tensor


def make_reader(saved: Path, spoken: Sequence[tuple[str, int]], minimum_uses: int) -> PhonemeReader:
    """Return the reader in the file `saved`; where there is none, learn it.

    Its symbols are those of the training texts, and their durations come from a ridge regression of lengths on symbol counts.

    Args:
        spoken: text and number of codes of each training utterance.
        minimum_uses: symbols that are rarer are left out.
    """
    if not saved.exists():
        texts = [phonemise(text) for text, _ in spoken]
        uses = Counter(symbol for text in texts for symbol in text)
        symbols = tuple(sorted(symbol for symbol, n in uses.items() if n >= minimum_uses))
        durations = _durations(symbols, texts, [length for _, length in spoken])
        write_json(saved, {"symbols": symbols, "durations": durations})
    return PhonemeReader(**{k: tuple(v) for k, v in json.loads(saved.read_text(encoding="utf-8")).items()})


def used_codes(spoken: Sequence[TokenizedUtterance], codebook_size: int) -> Tensor:
    """Count how often each code occurs, `[codebook_size]`."""
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


IGNORED = -100

T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """ids, labels `[B, T]` (labels are token indices, -100 where nothing is learned) and positions `[B, T]`."""

    ids: Tensor
    positions: Tensor
    labels: Tensor

    def to(self, device: str) -> "Batch":
        return Batch(self.ids.to(device), self.positions.to(device), self.labels.to(device))


def make_row(utterances: Sequence[TokenizedUtterance], reader: PromptReader, codes: int) -> Batch:
    """Return one sequence, its tensors `[T]`: `utterances[0]` as reference, then the others, then the end of speech."""
    first, rest = utterances[0], utterances[1:]
    prompt = lay_out(first, rest, reader)
    said = torch.cat([u.codes for u in rest])
    ids = torch.cat([prompt.ids, said + reader.first_code])
    positions = torch.cat([prompt.positions, torch.arange(len(said)) + prompt.next_position])
    speech = torch.cat([first.codes, said, torch.tensor([codes])])
    labels = torch.full_like(ids, IGNORED)
    labels[len(ids) - len(speech) :] = speech
    return Batch(ids, positions, labels)


def lay_out(first: TokenizedUtterance, rest: Sequence[TokenizedUtterance], reader: PromptReader) -> Prompt:
    """Return the prompt for the texts of `rest`, with `first` as reference, whose codes end it."""
    if isinstance(reader, PhonemeReader):  # its symbols are noted: reading them anew takes longer than a draft's batch
        return reader.assemble(first.symbols, first.codes, [s for u in rest for s in u.symbols])
    return reader.learned(" ".join(u.text for u in rest), Reference(first.text, first.codes))


def collate(rows: Sequence[Batch]) -> Batch:
    """Pad on the right: with causal attention the padding changes nothing before it."""
    pad = torch.nn.utils.rnn.pad_sequence
    return Batch(
        pad([r.ids for r in rows], batch_first=True),
        pad([r.positions for r in rows], batch_first=True),
        pad([r.labels for r in rows], batch_first=True, padding_value=IGNORED),
    )


def pack(items: Sequence[T], length: Callable[[T], int], budget: float) -> list[list[T]]:
    """Group neighbours of `items`, in order of length, into batches whose padded length stays within `budget`."""
    batches: list[list[T]] = []
    for item in items:
        if not batches or (len(batches[-1]) + 1) * length(item) > budget:
            batches.append([])
        batches[-1].append(item)
    return batches


class Epochs:
    """Batches of about `budget` padded tokens; batch `index` is the same in every run with the same seed."""

    def __init__(
        self, spoken: Sequence[TokenizedUtterance], reader: PromptReader, codes: int, budget: int, seed: int, longest: int = 360
    ) -> None:
        self._spoken, self._reader, self._codes = spoken, reader, codes
        self._budget, self._seed, self._longest = budget, seed, longest
        self.per_epoch = len(self._plan(0))
        self._plan_cached = lru_cache(maxsize=2)(self._plan)

    def batch(self, index: int) -> Batch:
        """Return batch `index`. Epochs differ by a few batches, so each is cut or repeated to the first one's length."""
        epoch, place = divmod(index, self.per_epoch)
        plan = self._plan_cached(epoch)
        groups = plan[place % len(plan)]
        return collate([make_row([self._spoken[i] for i in group], self._reader, self._codes) for group in groups])

    def _plan(self, epoch: int) -> list[list[list[int]]]:
        rng = random.Random(self._seed * 7919 + epoch)
        by_voice: dict[str, list[int]] = defaultdict(list)
        for i, utterance in enumerate(self._spoken):
            by_voice[utterance.voice].append(i)
        groups: list[list[int]] = []
        for voice in sorted(by_voice):
            rng.shuffle(by_voice[voice])
            groups += self._chain(by_voice[voice], rng)
        rng.shuffle(groups)
        batches = []
        for first in range(0, len(groups), 512):
            window = sorted(groups[first : first + 512], key=self._length)
            batches += pack(window, self._length, self._budget)
        rng.shuffle(batches)
        return batches

    def _chain(self, order: list[int], rng: random.Random) -> list[list[int]]:
        groups, group, wanted = [], [], rng.choice((2, 2, 3))
        for i in order:
            if len(group) >= 2 and (len(group) == wanted or self._speech(group) + len(self._spoken[i].codes) > self._longest):
                groups.append(group)
                group, wanted = [], rng.choice((2, 2, 3))
            group.append(i)
        return [*groups, group] if len(group) > 1 else groups

    def _speech(self, group: list[int]) -> int:
        return sum(len(self._spoken[i].codes) for i in group)

    def _length(self, group: list[int]) -> int:
        return self._speech(group) + sum(len(self._spoken[i].symbols or self._spoken[i].text) for i in group)
