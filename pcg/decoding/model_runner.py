"""One model reading a batch of utterances: their ids and positions, and the KV cache behind them."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pcg.acceptance.sampler import draw
from pcg.decoding.proposal import Proposal, acceptance_bound
from pcg.models.cpu_kernel.arithmetic import soften_rows
from pcg.models.cpu_kernel.passes import TOKENS_AT_ONCE
from pcg.models.llama import Cache, DecodingLlama
from pcg.prompts.prompt import Prompt
from pcg.sampling.memory import Memory, Trail, trails, warp_each
from pcg.sampling.plain import Plain


class ModelRunner:
    """Feeds B prompts and then speech tokens (as token indices) to a model, and forgets them by a length.

    `read(row)` counts the speech tokens of a row that the cache holds. `limit` is the most speech tokens that a row will be
    fed, drafted ones included. `tapped`: the layers whose hidden states are kept, for a draft that reads them (`Cache.taps`).
    `cache`: one to be used again, instead of a new one.
    """

    def __init__(
        self,
        model: DecodingLlama,
        prompts: Sequence[Prompt],
        limit: int,
        tapped: Sequence[int] = (),
        cache: Cache | None = None,
    ) -> None:
        self._model = model
        self._ids_of = model.vocabulary.model_ids().numpy()
        self._prompted = [len(p.ids) for p in prompts]
        capacity = max(self._prompted) + limit
        self._ids = torch.zeros(len(prompts), capacity, dtype=torch.int64)
        self._written = self._ids.numpy()  # the same memory: small writes through torch cost more than the draft's layers
        positions = torch.zeros(len(prompts), capacity)
        for row, prompt in enumerate(prompts):
            count = len(prompt.ids)
            self._ids[row, :count] = prompt.ids
            positions[row, :count] = prompt.positions
            positions[row, count:] = prompt.next_position + torch.arange(capacity - count)
        self._rotary = model.rotary(positions.to(model.device))
        self._cache = model.cache(len(prompts), capacity, tapped) if cache is None else cache

    @property
    def batch(self) -> int:
        return len(self._prompted)

    @property
    def vocabulary_size(self) -> int:
        return self._model.vocabulary.size

    def prefill(self, rows: Sequence[int] | None = None) -> None:
        """Read the prompts of `rows` (all of them by default) but for the last id, which waits for the first `feed`."""
        for row in range(self.batch) if rows is None else rows:
            count = self._prompted[row]
            self._forward([row], [count - 1], count - 1, last=1)

    def read(self, row: int) -> int:
        return max(0, self._cache.lengths[row] - self._prompted[row])

    def feed(self, rows: Sequence[int], tokens: Sequence[Sequence[int]], last: int) -> Tensor:
        """Read speech tokens, `tokens[i]` in row `rows[i]`; return the logits behind each row's `last` ids, `[R, last, V]`.

        The first call also reads the prompts' last ids, so `feed(rows, [[], ...], 1)` is about the first speech tokens. Rows
        that are fed fewer tokens than others read some of their last ids once more.
        """
        return self._forward(rows, *self._make_room(rows, tokens), last)

    def trails(
        self,
        rows: Sequence[int],
        unread: Sequence[Sequence[int]],
        drafted: Sequence[Sequence[int]],
        memories: Sequence[Memory],
    ) -> list[Trail]:
        """Read the `unread` tokens of each row and the `drafted` ones behind them: the probabilities at each drafted position
        and behind the last, by the row's memory."""
        tokens = [[*new, *then] for new, then in zip(unread, drafted, strict=True)]
        last = 1 + max(map(len, drafted))
        if len(rows) == 1 and self._model.compiled and isinstance(memories[0], Plain) and memories[0].softmax_alone:
            (end,), count = self._make_room(rows, tokens)
            if count <= TOKENS_AT_ONCE:
                probs = soften_rows(self._read(rows[0], end, count, last), memories[0].temperature)
                return [Trail(torch.from_numpy(probs), (memories[0],))]
        return trails(memories, self.feed(rows, tokens, last), drafted)

    def propose(
        self,
        rows: Sequence[int],
        unread: Sequence[Sequence[int]],
        coins: Tensor,
        memories: Sequence[Memory],
        confidence: float | None = None,
    ) -> list[Proposal]:
        """Draft behind the `unread` tokens of each row, one token for each of the row's `coins [R, L]`, by the
        probabilities that follow from the row's memory.

        With `confidence`, a row stops drafting where p gives less hope than that of being accepted
        (`acceptance_bound`). It looks at p before the token is drawn, never at the token or at q, so that what a rule says
        of the verified tokens holds as before.
        """
        if turn := self._whole_turn(rows, unread, coins, memories, confidence):
            return [turn]
        size = self.vocabulary_size
        return draft_each(lambda *new: self.feed(*new, 1)[:, 0], rows, unread, coins, memories, confidence, size)

    def fork(self, source: int, rows: Sequence[int]) -> None:
        """Let `rows` have read what `source` has read, by a copy of what they lack of it; all have the same prompt."""
        length = self._cache.lengths[source]
        for row in rows:
            agreed = self._agreed(source, row)
            self._ids[row] = self._ids[source]
            self._cache.copy(source, row, agreed, length)

    def _agreed(self, one: int, other: int) -> int:
        """How many ids both rows have read alike."""
        both = min(self._cache.lengths[one], self._cache.lengths[other])
        differs = self._written[one, :both] != self._written[other, :both]
        return int(differs.argmax()) if differs.any() else both

    def roll_back(self, row: int, read: int) -> None:
        """Forget all but the first `read` speech tokens of `row`."""
        self._cache.roll_back(row, self._prompted[row] + read)

    def _whole_turn(
        self,
        rows: Sequence[int],
        unread: Sequence[Sequence[int]],
        coins: Tensor,
        memories: Sequence[Memory],
        confidence: float | None,
    ) -> Proposal | None:
        """What `propose` finds for one row, by one compiled call; None where the model, its company or its sampling is not made
        for that."""
        plain = isinstance(memories[0], Plain) and memories[0].softmax_alone
        if len(rows) > 1 or confidence is not None or not (plain and self._model.compiled and coins.numel()):
            return None
        (end,), count = self._make_room(rows, unread)
        if count > TOKENS_AT_ONCE:
            return None
        tokens, probs = self._turn(rows[0], end, count, coins.numpy()[0], memories[0].temperature)
        self._written[rows[0], end : end + len(tokens) - 1] = self._ids_of[tokens[:-1]]
        return Proposal(torch.from_numpy(tokens), torch.from_numpy(probs))

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The rotary tables as the compiled kernel takes them, the same memory."""
        cos, sin = self._rotary
        return cos.numpy(), sin.numpy()

    def _turn(self, row: int, end: int, count: int, coins: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """Read the `count` ids before `end`, and draft by `coins [L]`: tokens `[L]` and their probabilities `[L, V]`."""
        ids, (cos, sin) = self._written[row, end - count : end], self._tables
        return self._model.draft(ids, (cos[row], sin[row]), self._cache, row, coins, temperature)

    def _read(self, row: int, end: int, count: int, last: int) -> np.ndarray:
        """`_forward` of one row by the compiled kernel, on arrays: slices of tensors would cost as much as a layer."""
        place = row, slice(end - count, end)
        cos, sin = (table[place] for table in self._tables)
        return self._model.read(self._written[place], (cos, sin), self._cache, [row], last)

    def _make_room(self, rows: Sequence[int], tokens: Sequence[Sequence[int]]) -> tuple[list[int], int]:
        """Note the tokens behind what each row has read; return where they end, and how many ids before that are to be read in
        each row, which forgets what it read of them."""
        ends = self._write(rows, tokens)
        count = max(end - self._cache.lengths[row] for row, end in zip(rows, ends, strict=True))
        for row, end in zip(rows, ends, strict=True):
            self._cache.roll_back(row, end - count)
        return ends, count

    def _write(self, rows: Sequence[int], tokens: Sequence[Sequence[int]]) -> list[int]:
        """Note the tokens behind what each row has read; return where they end."""
        ends = []
        for row, new in zip(rows, tokens, strict=True):
            start = self._prompted[row] + self.read(row)
            ends.append(start + len(new))
            if new:
                self._written[row, start : ends[-1]] = self._ids_of[list(new)]
        return ends

    def _forward(self, rows: Sequence[int], ends: Sequence[int], count: int, last: int) -> Tensor:
        """Read the `count` ids before `ends` of each row."""
        cos, sin = (self._before(table, rows, ends, count) for table in self._rotary)
        ids = self._before(self._ids, rows, ends, count).to(self._model.device)
        return self._model.forward(ids, (cos, sin), self._cache, last, rows)

    @staticmethod
    def _before(table: Tensor, rows: Sequence[int], ends: Sequence[int], count: int) -> Tensor:
        """The `count` entries before `ends` of each row of `table [B, capacity, ...]`, `[R, count, ...]`."""
        if len(rows) == 1:
            return table[rows[0] : rows[0] + 1, ends[0] - count : ends[0]]
        return torch.stack([table[row, end - count : end] for row, end in zip(rows, ends, strict=True)])


Behind = Callable[[list[int], list[Sequence[int]]], Tensor]
"""(rows, new tokens of each): lets a draft read the new tokens; the logits behind them, `[R, V]`."""


def draft_each(
    behind: Behind,
    rows: Sequence[int],
    unread: Sequence[Sequence[int]],
    coins: Tensor,
    memories: Sequence[Memory],
    confidence: float | None,
    size: int,
) -> list[Proposal]:
    """`ModelRunner.propose` for any model: `behind` is called with the unread tokens first, then with each one that was drawn.
    size: how many tokens there are."""
    tokens: dict[int, list[int]] = {row: [] for row in rows}
    probs: dict[int, list[Tensor]] = {row: [] for row in rows}
    following, coin_of = dict(zip(rows, unread, strict=True)), dict(zip(rows, coins.tolist(), strict=True))
    memory_of = dict(zip(rows, memories, strict=True))
    for position in range(coins.shape[1]):
        logits = behind(list(following), list(following.values()))
        given, following = list(following), {}
        for row, warped in zip(given, warp_each([memory_of[row] for row in given], logits), strict=True):
            if confidence is None or acceptance_bound(warped.probs) >= confidence:
                tokens[row].append(draw(warped.probs, coin_of[row][position]))
                probs[row].append(warped.probs)
                following[row] = tokens[row][-1:]
                memory_of[row] = memory_of[row].after(tokens[row][-1], warped)
        if not following:
            break
    none = torch.empty(0, size)
    return [Proposal(torch.tensor(tokens[r], dtype=torch.int64), torch.stack(probs[r]) if probs[r] else none) for r in rows]
