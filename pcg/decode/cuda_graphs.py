"""Fixed shapes for a GPU: whole calls, and the whole draft loop, replayed as CUDA graphs.

A CUDA graph replays recorded kernels on the same memory, so everything that changes lives in tensors that stay: ids, rotary
tables, the slots where rows start, coins. Off a GPU the same functions run plainly, which is how they are tested.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pcg.decode.draft import Proposal, RowRequest
from pcg.decode.model_runner import ModelRunner
from pcg.models.llama import DecodingLlama
from pcg.sampling import Plain
from pcg.text.prompt import Prompt

LONGEST_CALL = 17
"""Calls of more ids are prompts, each of its own length, and not worth a recording."""


class Recorded:
    """`function(*inputs)` on tensors of fixed shapes: recorded on the first call, replayed on the later ones."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor]) -> None:
        self._inputs = [torch.empty_like(t).copy_(t) for t in inputs]
        self._graph = None
        if self._inputs[0].is_cuda:
            self._graph, self._outputs = self._record(function)
        else:
            self._function = function

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs are overwritten by the next call."""
        for mine, given in zip(self._inputs, inputs, strict=True):
            mine.copy_(given)
        if self._graph is None:
            return self._function(*self._inputs)
        self._graph.replay()
        return self._outputs

    def _record(self, function: Callable[..., tuple[Tensor, ...]]) -> tuple["torch.cuda.CUDAGraph", tuple[Tensor, ...]]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries pick kernels and allocate on first use, which a recording must not see
                function(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = function(*self._inputs)
        return graph, outputs


class GraphModel:
    """A model with caches for `batch` rows of `capacity` positions, and every call on them that was recorded so far."""

    def __init__(self, model: DecodingLlama, batch: int, capacity: int) -> None:
        self.model = model
        self.cache = model.cache(batch, capacity)
        empty = torch.zeros(batch, capacity, device=model.device)
        self.rotary = model.rotary(empty)
        self.ids_of = model.vocabulary.model_ids().to(model.device)
        self._recorded: dict[tuple[str, int, int], Recorded] = {}

    def read(self, ids: Tensor, starts: Tensor, last: int) -> Tensor:
        """Logits `[B, last, V]` behind `ids [B, T]` at the slots from `starts [B]` on."""
        key = ("read", ids.shape[1], last)
        if key not in self._recorded:
            self._recorded[key] = Recorded(lambda i, s: (self._run(i, s, last),), (ids, starts))
        return self._recorded[key](ids, starts)[0]

    def draft(self, ids: Tensor, starts: Tensor, coins: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Read `ids [B, T]`, then draw a token for each of `coins [B, L]`: tokens `[B, L]` and their probabilities `[B, L,
        V]`."""
        key = ("draft", ids.shape[1], coins.shape[1])
        inputs = (ids, starts, coins, temperature)
        if key not in self._recorded:
            self._recorded[key] = Recorded(self._draft, inputs)
        tokens, probs = self._recorded[key](*inputs)
        return tokens, probs

    def _draft(self, ids: Tensor, starts: Tensor, coins: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        tokens, probs = [], []
        for position in range(coins.shape[1]):
            p = (self._run(ids, starts, 1)[:, 0].float() / temperature).softmax(-1)
            probs.append(p)
            tokens.append(draw_each(p, coins[:, position]))
            starts = starts + ids.shape[1]
            ids = self.ids_of[tokens[-1]][:, None]
        return torch.stack(tokens, 1), torch.stack(probs, 1)

    @torch.inference_mode()
    def _run(self, ids: Tensor, starts: Tensor, last: int) -> Tensor:
        slots = starts[:, None] + torch.arange(ids.shape[1], device=ids.device)
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        tables = (self.rotary[0][rows, slots], self.rotary[1][rows, slots])
        return self.model.run(ids, tables, self.cache, starts, self.cache.capacity, last)


class GraphRunner(ModelRunner):
    """ModelRunner on a GraphModel: every row takes part in every call, the silent ones with their old ids."""

    def __init__(self, static: GraphModel, prompts: Sequence[Prompt], limit: int) -> None:
        longest = max(len(p.ids) for p in prompts) + limit
        if len(prompts) != static.cache.batch or longest > static.cache.capacity:
            raise ValueError(f"{len(prompts)} rows of {longest} do not fit into {static.cache.keys.shape}")
        super().__init__(static.model, prompts, limit, cache=static.cache)
        self.static = static
        for mine, table in zip(static.rotary, self._rotary, strict=True):
            mine[:, : table.shape[1]] = table

    def propose(self, requests: Sequence[RowRequest], confidence: float | None = None) -> list[Proposal]:
        """As in `ModelRunner`, in one recorded call and one copy where sampling is a plain softmax; adaptive drafting and other
        samplers have to look at each position, and cannot."""
        samplers = [request.sampler for request in requests]
        heat = {sampler.temperature if isinstance(sampler, Plain) and sampler.softmax_alone else None for sampler in samplers}
        if confidence is not None or len(heat) != 1 or None in heat:
            return super().propose(requests, confidence)
        (temperature,) = heat
        rows, coins = [request.row for request in requests], [request.coins for request in requests]
        ends = self._write(rows, [request.unread for request in requests])
        # Two ids are read even where one is new, so that the shapes are the same after a full acceptance.
        ids, starts = self._newest(rows, ends, 2)
        everyone = torch.zeros(self.batch, max(map(len, coins)), dtype=torch.float64)
        for row, coin in zip(rows, coins, strict=True):
            everyone[row, : len(coin)] = torch.as_tensor(coin)
        device = self._model.device
        tokens, probs = self.static.draft(ids, starts, everyone.to(device), torch.tensor(temperature, device=device))
        tokens, probs = tokens[list(rows)].cpu(), probs[list(rows)].cpu().clone()
        for row, end, drafted in zip(rows, ends, tokens, strict=True):
            self._written[row, end : end + len(drafted) - 1] = self._ids_of[drafted[:-1].numpy()]
            self._cache.lengths[row] = end + len(drafted) - 1
        return [Proposal(t, p).first(len(coin)) for t, p, coin in zip(tokens, probs, coins, strict=True)]

    def _forward(self, rows: Sequence[int], ends: Sequence[int], count: int, last: int) -> Tensor:
        if count > LONGEST_CALL:
            return super()._forward(rows, ends, count, last)
        ids, starts = self._newest(rows, ends, count)
        logits = self.static.read(ids, starts, last)[list(rows)].clone()
        for row, end in zip(rows, ends, strict=True):
            self._cache.lengths[row] = end
        return logits

    def _newest(self, rows: Sequence[int], ends: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
        """The `count` ids before `ends`, and their first slots. A row that is not asked for reads its last ones again, or its
        first ones where it has not read as many."""
        end_of = dict(enumerate(self._cache.lengths)) | dict(zip(rows, ends, strict=True))
        starts = [max(0, end_of[row] - count) for row in range(self.batch)]
        ids = torch.stack([self._ids[row, start : start + count] for row, start in enumerate(starts)])
        return ids.to(self._model.device), torch.tensor(starts, device=self._model.device)


class GraphPool:
    """GraphModels for reuse: recording a call takes longer than an utterance."""

    STEP = 256

    def __init__(self) -> None:
        self._idle: list[GraphModel] = []

    def runners(self, model: DecodingLlama, prompts: Sequence[Prompt], limit: int) -> GraphRunner:
        """A GraphRunner on an idle GraphModel, or on a new one, not lent again until `give_back`."""
        needed = max(len(p.ids) for p in prompts) + limit
        for static in self._idle:
            if static.model is model and static.cache.batch == len(prompts) and static.cache.capacity >= needed:
                self._idle.remove(static)
                break
        else:
            static = GraphModel(model, len(prompts), -(-needed // self.STEP) * self.STEP)
        return GraphRunner(static, prompts, limit)

    def give_back(self, runners: GraphRunner) -> None:
        self._idle.append(runners.static)


def draw_each(probs: Tensor, coins: Tensor) -> Tensor:
    """`draw` for each row of `probs [B, V]` by `coins [B]`, without a look from the host: tokens `[B]`."""
    cumulative = probs.double().cumsum(-1)
    index = torch.searchsorted(cumulative, coins[:, None] * cumulative[:, -1:], right=True)[:, 0]
    places = torch.arange(probs.shape[1], device=probs.device)
    return index.minimum(torch.where(probs > 0, places, 0).amax(-1))
