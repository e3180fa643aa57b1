"""One model reading a batch of utterances: their ids and positions, and the KV cache behind them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from pcg.decode.sequence import Proposal, RowRequest
from pcg.models.kernel.passes import TOKENS_AT_ONCE
from pcg.models.llama import DecodingLlama, Drawn, Turns
from pcg.sampling import Plain, SampledSpan, SamplerState, draw, sampled_spans, warp_rows
from pcg.text.prompt import Prompt

LONGEST_UNREAD = 32
"""A draft with more ids to read in a row is not called for whole turns: scratch memory grows with the tokens of all rows."""


class ModelRunner:
    """Feeds B prompts and then speech tokens (as token indices) to a model, and forgets them by a length.

    `read(row)` counts the speech tokens of a row that the cache holds. `limit` is the most speech tokens that a row will be
    fed, drafted ones included. `tapped`: the layers whose hidden states are kept, for a draft that reads them (`Cache.taps`).
    """

    def __init__(self, model: DecodingLlama, prompts: Sequence[Prompt], limit: int, tapped: Sequence[int] = ()) -> None:
        self._model = model
        self._ids_of = model.vocabulary.model_ids().numpy()
        self._prompted = [len(p.ids) for p in prompts]
        capacity = max(self._prompted) + limit
        self._ids = torch.zeros(len(prompts), capacity, dtype=torch.int64)
        self._written = self._ids.numpy()  # the same memory: small writes through torch cost more than the draft's layers
        self._rotary = model.rotary(torch.zeros(len(prompts), capacity, device=model.device))
        self._cache = model.cache(len(prompts), capacity, tapped)
        for row, prompt in enumerate(prompts):
            self.put(row, prompt)

    def put(self, row: int, prompt: Prompt) -> None:
        """Begin anew in `row`, with another prompt, of which nothing is read yet (see `prefill`)."""
        count, capacity = len(prompt.ids), self._ids.shape[1]
        self._prompted[row], self._cache.lengths[row] = count, 0
        self._ids[row, :count] = prompt.ids
        positions = torch.cat([prompt.positions, prompt.next_position + torch.arange(capacity - count)])
        for table, new in zip(self._rotary, self._model.rotary(positions.to(self._model.device)), strict=True):
            table[row] = new

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

    def sampled_spans(self, requests: Sequence[RowRequest]) -> list[SampledSpan]:
        """Read each row's unread and drafted tokens; return its probabilities at the drafted ones and behind the last."""
        rows = [request.row for request in requests]
        tokens = [[*request.unread, *request.drafted] for request in requests]
        if self._model.compiled:
            ends = self._write(rows, tokens)
            counts = self._lacking(rows, ends)
            if sum(counts) <= TOKENS_AT_ONCE:
                return self._read(requests, ends, counts)
        drafted = [request.drafted for request in requests]
        logits = self.feed(rows, tokens, 1 + max(map(len, drafted)))
        return sampled_spans([request.sampler for request in requests], logits, drafted)

    def propose(self, requests: Sequence[RowRequest]) -> list[Proposal]:
        """Draft behind the unread tokens of each row, one token for each of its coins; rows may draft different numbers."""
        swift = [request for request in requests if self._in_one_call(request)]
        slow = [request for request in requests if request not in swift]
        proposals: dict[int, Proposal] = {}
        for draft, chosen in ((self._whole_turns, swift), (self._stepwise, slow)):
            if chosen:
                proposals |= zip([request.row for request in chosen], draft(chosen), strict=True)
        return [proposals[request.row] for request in requests]

    def fork(self, source: int, rows: Sequence[int]) -> None:
        """Let `rows` have read what `source` has read, by a copy of what they lack of it; all have the same prompt."""
        length = self._cache.lengths[source]
        for row in rows:
            agreed = self._agreed(source, row)
            self._ids[row] = self._ids[source]
            self._cache.copy(source, row, agreed, length)

    def _agreed(self, one: int, other: int) -> int:
        """Count the ids that both rows have read alike."""
        both = min(self._cache.lengths[one], self._cache.lengths[other])
        differs = self._written[one, :both] != self._written[other, :both]
        return int(differs.argmax()) if differs.any() else both

    def roll_back(self, row: int, read: int) -> None:
        """Forget all but the first `read` speech tokens of `row`."""
        self._cache.roll_back(row, self._prompted[row] + read)

    def _stepwise(self, requests: Sequence[RowRequest]) -> list[Proposal]:
        """Draft by one call of the model for each position."""
        return draft_each(lambda *new: self.feed(*new, 1)[:, 0], requests)

    def _in_one_call(self, request: RowRequest) -> bool:
        """Return whether model, sampler and size allow to draft in this row by one compiled call."""
        row = request.row
        lacking = self._prompted[row] + self.read(row) + len(request.unread) - self._cache.lengths[row]
        drafts = len(request.coins) > 0 and lacking <= LONGEST_UNREAD
        return self._model.compiled and _is_softmax(request.sampler) and drafts

    def _whole_turns(self, requests: Sequence[RowRequest]) -> list[Proposal]:
        """Draft by one compiled call for all rows."""
        rows = [request.row for request in requests]
        ends = self._write(rows, [request.unread for request in requests])
        counts = self._lacking(rows, ends)
        ids = joined([self._written[row, end - n : end] for row, end, n in zip(rows, ends, counts, strict=True)])
        coins = [np.asarray(request.coins) for request in requests]
        heat = [request.sampler.temperature for request in requests]
        turn = self._turn(Turns(ids, rows, counts, self._tables, coins, heat, self._ids_of), ends)
        proposals = []
        for row, end, new, p, count in zip(rows, ends, turn.tokens, turn.probs, map(len, coins), strict=True):
            self._written[row, end : end + count - 1] = self._ids_of[new[: count - 1]]
            proposals.append(Proposal(torch.from_numpy(new[:count]), torch.from_numpy(p[:count])))
        return proposals

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The rotary tables as the compiled kernel takes them, the same memory."""
        cos, sin = self._rotary
        return cos.numpy(), sin.numpy()

    def _turn(self, turns: Turns, ends: Sequence[int]) -> Drawn:
        """Play turns whose first ids end at the slots `ends`."""
        return self._model.draft(turns, self._cache)

    def _read(self, requests: Sequence[RowRequest], ends: Sequence[int], counts: Sequence[int]) -> list[SampledSpan]:
        """`sampled_spans` by the compiled kernel, on arrays: slices of tensors would cost as much as a layer. Each row reads
        the `counts` ids before `ends`. A softmax is part of the call."""
        rows = [request.row for request in requests]
        lasts = [1 + len(request.drafted) for request in requests]
        places = [(row, slice(end - count, end)) for row, end, count in zip(rows, ends, counts, strict=True)]
        ids, cos, sin = (joined([table[place] for place in places]) for table in (self._written, *self._tables))
        heat = [request.sampler.temperature if _is_softmax(request.sampler) else 0.0 for request in requests]
        found = self._model.read(ids, (cos, sin), self._cache, rows, counts, lasts, heat)
        found = [torch.from_numpy(found[end - last : end]) for end, last in zip(accumulate(lasts), lasts, strict=True)]
        return [
            SampledSpan(span, (r.sampler,)) if warm else sampled_spans([r.sampler], [span], [r.drafted])[0]
            for r, span, warm in zip(requests, found, heat, strict=True)
        ]

    def _make_room(self, rows: Sequence[int], tokens: Sequence[Sequence[int]]) -> tuple[list[int], int]:
        """Note the tokens behind what each row has read; return where they end, and how many ids each row reads."""
        ends = self._write(rows, tokens)
        count = max(self._lacking(rows, ends))
        for row, end in zip(rows, ends, strict=True):
            self._cache.roll_back(row, end - count)
        return ends, count

    def _lacking(self, rows: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Count the ids before `ends` that each row has not read."""
        return [end - self._cache.lengths[row] for row, end in zip(rows, ends, strict=True)]

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
        """Return the `count` entries before `ends` of each row of `table [B, capacity, ...]`, `[R, count, ...]`."""
        if len(rows) == 1:
            return table[rows[0] : rows[0] + 1, ends[0] - count : ends[0]]
        return torch.stack([table[row, end - count : end] for row, end in zip(rows, ends, strict=True)])


def _is_softmax(sampler: SamplerState) -> bool:
    """Return whether the compiled kernel can compute the sampler's probabilities."""
    return isinstance(sampler, Plain) and sampler.softmax_alone


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate arrays; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


Behind = Callable[[list[int], list[Sequence[int]]], Tensor]
"""(rows, new tokens of each): lets a draft read the new tokens; the logits behind them, `[R, V]`."""


def draft_each(behind: Behind, requests: Sequence[RowRequest]) -> list[Proposal]:
    """Draft by any model: `behind` is called with the unread tokens first, then with each one that was drawn."""
    rows = [request.row for request in requests]
    tokens: dict[int, list[int]] = {row: [] for row in rows}
    probs: dict[int, list[Tensor]] = {row: [] for row in rows}
    following = {request.row: request.unread for request in requests}
    coins = {request.row: request.coins.tolist() for request in requests}
    samplers = {request.row: request.sampler for request in requests}
    for position in range(max(map(len, coins.values()))):
        following = {row: new for row, new in following.items() if position < len(coins[row])}
        logits = behind(list(following), list(following.values()))
        given, following = list(following), {}
        for row, warped in zip(given, warp_rows([samplers[row] for row in given], logits), strict=True):
            token = draw(warped.probs, coins[row][position])
            tokens[row].append(token)
            probs[row].append(warped.probs)
            following[row] = [token]
            samplers[row] = samplers[row].after(token, warped)
    return [Proposal(torch.tensor(tokens[row], dtype=torch.int64), torch.stack(probs[row])) for row in rows]
