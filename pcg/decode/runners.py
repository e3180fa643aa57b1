"""The model runners of a loop: the target's, and that of whatever drafts."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pcg.decode.model_runner import ModelRunner, draft_each, joined
from pcg.decode.sequence import Proposal, RowRequest
from pcg.models.feature_draft import FeatureDraft
from pcg.models.llama import DecodingLlama, Drawn, Turns
from pcg.text.prompt import Prompt


class FeatureRunner(ModelRunner):
    """The ModelRunner of a feature draft beside those of its target, which keep the taps and have to read first: prompts by
    `prefill`, and every token but the newest.

    Between two rounds the cache holds only tokens that were read behind the target: what was read behind the draft's own state
    is forgotten at the end of `propose`, and read again if it was accepted.
    """

    def __init__(self, draft: FeatureDraft, target: ModelRunner) -> None:
        if target._cache.tapped != draft.tapped:
            raise ValueError(f"the target keeps the layers {target._cache.tapped}, but the draft reads {draft.tapped}")
        self._model, self._target = draft, target
        self._ids_of, self._prompted, self._rotary = target._ids_of, target._prompted, target._rotary
        self._ids = target._ids.clone()
        self._written = self._ids.numpy()
        self._cache = draft.cache(*self._ids.shape)

    def put(self, row: int, prompt: Prompt) -> None:
        """Take the prompt and its positions from the target's row, which has them first."""
        self._ids[row] = self._target._ids[row]
        self._cache.lengths[row] = 0

    def _stepwise(self, requests: Sequence[RowRequest]) -> list[Proposal]:
        """Read unread tokens behind the target's hidden states, and drafted ones behind the draft's own.

        With a compiled model row by row: PyTorch sums a batch in another order, and a row must get the same bits as alone.
        """
        if self._model.compiled and len(requests) > 1:
            return [self._stepwise([request])[0] for request in requests]
        states: dict[int, Tensor] = {}
        kept: dict[int, int] = {}

        def behind(given: list[int], new: list[Sequence[int]]) -> Tensor:
            if kept:
                found = self._behind_itself(given, [token for (token,) in new], torch.stack([states[row] for row in given]))
            else:
                found = self._behind_target(given, *self._make_room(given, new))[:, -1]
                kept.update({row: self._cache.lengths[row] for row in given})
            states.update(zip(given, found, strict=True))
            return self._model.logits(found)

        proposals = draft_each(behind, requests)
        for request in requests:
            self._cache.roll_back(request.row, kept[request.row])
        return proposals

    def _turn(self, turns: Turns, ends: Sequence[int]) -> Drawn:
        taps = [self._taps_of(*place) for place in zip(turns.rows, ends, turns.counts, strict=True)]
        turn = self._model.draft(turns, joined(taps), self._cache)
        for row, end in zip(turns.rows, ends, strict=True):
            self._cache.roll_back(row, end)
        return turn

    def _taps_of(self, row: int, end: int, count: int) -> np.ndarray:
        """`_taps` of one row on arrays, `[count, layers, D]`."""
        if end == count:
            return self._taps([row], [end], count)[0].numpy()
        self._check_target([row], [end])
        return self._target._cache.arrays[2][row, end - count - 1 : end - 1]

    def _forward(self, rows: Sequence[int], ends: Sequence[int], count: int, last: int) -> Tensor:
        return self._model.logits(self._behind_target(rows, ends, count)[:, -last:])

    def _behind_target(self, rows: Sequence[int], ends: Sequence[int], count: int) -> Tensor:
        """Read the `count` ids before `ends` of each row behind the target's taps; their states `[R, count, D]`."""
        taps = self._taps(rows, ends, count)
        ids = self._before(self._ids, rows, ends, count).to(self._model.device)
        rotary = tuple(self._before(table, rows, ends, count) for table in self._rotary)
        return self._model.run(self._model.behind_target(ids, taps), rotary, self._cache, rows)

    def _taps(self, rows: Sequence[int], ends: Sequence[int], count: int) -> Tensor:
        """Return the target's hidden states before each of the `count` ids before `ends`, `[R, count, layers, D]`."""
        self._check_target(rows, ends)
        cache = self._target._cache
        slots = torch.tensor(ends)[:, None] + torch.arange(-count, 0)
        taps = cache.taps[torch.tensor(rows)[:, None], (slots - 1).clamp(min=0)]
        taps[slots == 0] = 0.0
        return taps

    def _check_target(self, rows: Sequence[int], ends: Sequence[int]) -> None:
        if any(self._target._cache.lengths[row] < end - 1 for row, end in zip(rows, ends, strict=True)):
            raise ValueError("the target has to read a token before its draft reads the next one")

    def _behind_itself(self, rows: Sequence[int], tokens: Sequence[int], states: Tensor) -> Tensor:
        """Read one drafted token in each row behind the draft's `states [R, D]`; the new ones, `[R, D]`."""
        ends = [self._cache.lengths[row] + 1 for row in rows]
        ids = torch.from_numpy(self._ids_of[list(tokens)]).to(self._model.device)[:, None]
        rotary = tuple(self._before(table, rows, ends, 1) for table in self._rotary)
        return self._model.run(self._model.behind_itself(ids, states[:, None]), rotary, self._cache, rows)[:, 0]


AnyDraft = DecodingLlama | FeatureDraft


def make_runners(target: DecodingLlama, draft: AnyDraft | None, prompts: Sequence[Prompt], limit: int) -> list[ModelRunner]:
    """Return the runners of `target` and, unless it is None, of `draft`, for `prompts` and at most `limit` speech tokens a row
    (see `ModelRunner`).

    They read in this order: first the target's prompts, then the draft's (`prefill`), since a feature draft reads the target's
    hidden states.
    """
    first = ModelRunner(target, prompts, limit, draft.tapped if isinstance(draft, FeatureDraft) else ())
    if draft is None:
        return [first]
    return [first, FeatureRunner(draft, first) if isinstance(draft, FeatureDraft) else ModelRunner(draft, prompts, limit)]
