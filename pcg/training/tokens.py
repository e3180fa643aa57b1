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
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from pcg.asr.self_speculative import batches
from pcg.errors import InputError
from pcg.files import write_json
from pcg.text.prompt import PhonemeReader, Prompt, PromptReader, Reference
from pcg.text.reading import phonemise
from pcg.training.shards import read_shard


@dataclass(frozen=True)
class TokenizedUtterance:
    """One utterance for the language model: its voice, text, symbol numbers and speech codes (int64)."""

    voice: str
    text: str
    symbols: list[int]
    codes: Tensor


def make_reader(saved: Path, shards: Sequence[Path], minimum_uses: int) -> PhonemeReader:
    """Return the reader in the file `saved`; where there is none, learn it.

    Its symbols are those of the training texts, and their durations come from a ridge regression of lengths on symbol counts.

    Args:
        shards: of the codes of the training utterances.
        minimum_uses: symbols that are rarer are left out.
    """
    if not saved.exists():
        spoken = [utterance for shard in shards for utterance in read_shard(shard)]
        texts = [Counter(phonemise(utterance.text)) for utterance in spoken]
        uses = sum(texts, Counter())
        symbols = sorted(symbol for symbol, n in uses.items() if n >= minimum_uses)
        counts = np.array([[*(text[symbol] for symbol in symbols), 1] for text in texts], np.float64)
        lengths = np.array([len(utterance.values) for utterance in spoken], np.float64)
        weights = np.linalg.solve(counts.T @ counts + 10.0 * np.eye(len(symbols) + 1), counts.T @ lengths)
        durations = [round(max(0.05, float(weight)), 4) for weight in weights[:-1]]
        write_json(saved, {"symbols": symbols, "durations": durations})
    return PhonemeReader(**{name: tuple(row) for name, row in json.loads(saved.read_text(encoding="utf-8")).items()})


def by_voice(spoken: Sequence[TokenizedUtterance]) -> dict[str, list[TokenizedUtterance]]:
    """Group utterances by voice; voices with a single utterance are left out."""
    groups: dict[str, list[TokenizedUtterance]] = defaultdict(list)
    for utterance in spoken:
        groups[utterance.voice].append(utterance)
    return {voice: group for voice, group in sorted(groups.items()) if len(group) > 1}


def used_codes(spoken: Sequence[TokenizedUtterance], codebook_size: int) -> Tensor:
    """Count how often each code occurs, `[codebook_size]`."""
    return torch.bincount(torch.cat([s.codes for s in spoken]), minlength=codebook_size)


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

    def padded(name: str, value: int = 0) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([getattr(row, name) for row in rows], batch_first=True, padding_value=value)

    return Batch(padded("ids"), padded("positions"), padded("labels", IGNORED))


class Epochs(Generic[T]):
    """Batches of groups of utterances; batch `index` is the same in every run with the same seed.

    A group becomes one row. Groups of similar length share a batch, whose padded length is about `budget`: among `window`
    groups of the shuffled epoch they are sorted.

    Args:
        groups: returns the groups of an epoch, shuffled.
        length: of a group.
        easy: batches of the shortest groups that come before the first epoch.
    """

    def __init__(
        self,
        groups: Callable[[random.Random], list[T]],
        length: Callable[[T], int],
        budget: float,
        seed: int,
        window: int = 512,
        easy: int = 0,
    ) -> None:
        self._groups, self._length, self._window, self._easy = groups, length, window, easy
        self._budget, self._seed = budget, seed
        self._plan = lru_cache(maxsize=2)(self._make_plan)
        self.per_epoch = len(self._plan(0))

    def __getitem__(self, index: int) -> list[T]:
        """Return the groups of batch `index`. Epochs differ by a few batches; each is cut or repeated to the first's length."""
        epoch, place = divmod(index, self.per_epoch)
        plan = self._plan(epoch)
        return plan[place % len(plan)]

    def _make_plan(self, epoch: int) -> list[list[T]]:
        rng = random.Random(self._seed * 7919 + epoch)
        groups = self._groups(rng)
        windows = (groups[first : first + self._window] for first in range(0, len(groups), self._window))
        plan = [batch for window in windows for batch in batches(window, self._length, self._budget)]
        rng.shuffle(plan)
        easy = sorted(plan, key=lambda batch: self._length(batch[-1]))[: self._easy] if epoch == 0 else []
        return [*easy, *plan]


class TokenBatches:
    """Batches of about `budget` padded tokens; a row is two or three utterances of a voice, about `longest` codes at most.
    Raises InputError if no voice has two utterances; `what` is what errors call them."""

    def __init__(
        self,
        spoken: Sequence[TokenizedUtterance],
        reader: PromptReader,
        codes: int,
        budget: int,
        seed: int,
        longest: int = 360,
        what: str = "tokens",
    ) -> None:
        self._voices, self._reader, self._codes, self._longest = by_voice(spoken), reader, codes, longest
        self._epochs = Epochs(self._groups, self._positions, budget, seed)
        self.per_epoch = self._epochs.per_epoch
        if not self.per_epoch:
            raise InputError(what, f"{len(spoken)} utterances", "at least two of one voice")

    def batch(self, index: int) -> Batch:
        return collate([make_row(group, self._reader, self._codes) for group in self._epochs[index]])

    @staticmethod
    def _positions(group: Sequence[TokenizedUtterance]) -> int:
        return sum(len(u.codes) + len(u.symbols or u.text) for u in group)

    def _groups(self, rng: random.Random) -> list[list[TokenizedUtterance]]:
        groups: list[list[TokenizedUtterance]] = []
        for voice in self._voices.values():
            spoken = list(voice)
            rng.shuffle(spoken)
            group, wanted = [], rng.choice((2, 2, 3))
            for utterance in spoken:
                too_long = sum(len(u.codes) for u in [*group, utterance]) > self._longest
                if len(group) >= 2 and (len(group) == wanted or too_long):
                    groups.append(group)
                    group, wanted = [], rng.choice((2, 2, 3))
                group.append(utterance)
            if len(group) > 1:
                groups.append(group)
        rng.shuffle(groups)
        return groups
