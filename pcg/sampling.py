"""Logits -> probabilities -> tokens: softmax with truncation, the samplers "plain", "ras" and "eas", and draws by inverse CDF.

A sampler is immutable. It turns logits into probabilities, and a drawn token into the next sampler. To roll back is to continue
from an older one, so a rejected draft leaves no trace in it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pcg.models.kernel.arithmetic import block_ends, draw_within, soften_rows

if TYPE_CHECKING:
    from pcg.settings import Settings


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """Softmax of `logits [..., V]` at `temperature`, float32; on a CPU as a compiled draft computes it. At 0 the
    largest logit, the first of equal ones, has all probability: greedy decoding."""
    if temperature == 0:
        return functional.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and not logits.requires_grad:
        rows = np.ascontiguousarray(logits.numpy().reshape(-1, logits.shape[-1]))
        return torch.from_numpy(soften_rows(rows, temperature)).view(logits.shape)
    return (logits.float() / temperature).softmax(dim=-1)


def truncated(weights: Tensor, top_k: int, top_p: float) -> Tensor:
    """Normalise the `top_k` heaviest `weights [..., V]` (0: all), and of these the fewest that hold the share `top_p`.

    Of equal weights those of lower indices are the heavier.
    """
    count = min(top_k, weights.shape[-1]) if top_k else weights.shape[-1]
    if count == weights.shape[-1] and top_p >= 1:
        return weights / weights.sum(-1, keepdim=True)
    order = weights.argsort(dim=-1, descending=True, stable=True)[..., :count]
    kept = weights.gather(-1, order).double()
    before = kept.cumsum(-1) - kept
    kept = torch.where(before < top_p * kept.sum(-1, keepdim=True), kept, 0)
    kept /= kept.sum(-1, keepdim=True)
    return torch.zeros_like(weights).scatter(-1, order, kept.to(weights.dtype))


class Draws:
    """Draws from the non-negative weights `probs [V]` (any positive sum): first a block by its sum, then a token within it.

    All weights are read once, here; a draw then reads one block and the V / 256 running sums. All sums are float64.
    """

    def __init__(self, probs: Tensor | np.ndarray) -> None:
        weights = as_array(probs)
        self._weights = np.ascontiguousarray(weights, None if weights.dtype in (np.float32, np.float64) else np.float64)
        self._ends = block_ends(self._weights)

    def draw(self, coin: float) -> int:
        """Return the token at `coin` in [0, 1). A weight of zero is never drawn."""
        return draw_within(self._weights, self._ends, coin)


def draw(probs: Tensor | np.ndarray, coin: float) -> int:
    """Return the index in the non-negative weights `probs [V]` (any positive sum) at `coin` in [0, 1); see `Draws`."""
    return Draws(probs).draw(coin)


def as_array(probs: Tensor | np.ndarray) -> np.ndarray:
    """View a tensor as an array; copy only what is not in the CPU's memory."""
    if isinstance(probs, np.ndarray):
        return probs
    return probs.numpy() if probs.is_cpu and not probs.requires_grad else probs.numpy(force=True)


@dataclass(frozen=True)
class Warped:
    """The `probs [V]` that a token is drawn from, and the `leaders` that compete for it, best first (EAS alone)."""

    probs: Tensor
    leaders: tuple[int, ...] = ()


class SamplerState(Protocol):
    """A sampler with what it remembers of an utterance."""

    @property
    def remembers(self) -> bool:
        """Whether the probabilities depend on earlier tokens; if not, `warp` takes many positions at once."""
        ...

    def warp(self, logits: Tensor) -> Warped:
        """Turn `logits [V]` into probabilities, float32 on the CPU."""
        ...

    def after(self, token: int, warped: Warped) -> Self:
        """Return the state after `token` was drawn from `warped`."""
        ...


@dataclass(frozen=True)
class Plain:
    """Softmax at `temperature` over the `top_k` likeliest tokens (0: all) that hold the share `top_p`; with `penalty` above 1
    the tokens `spoken` so far are less likely."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    penalty: float = 1.0
    spoken: frozenset[int] = frozenset()

    @property
    def remembers(self) -> bool:
        return self.penalty != 1

    @property
    def softmax_alone(self) -> bool:
        """Whether its probabilities are the softmax at its temperature and nothing else."""
        return not self.remembers and self.top_k == 0 and self.top_p >= 1 and self.temperature > 0

    def warp(self, logits: Tensor) -> Warped:
        """Warp as in `SamplerState`, and `logits [..., V]` of any shape."""
        if self.remembers and self.spoken:  # arXiv 1909.05858, section 4.1
            index = torch.tensor(sorted(self.spoken), dtype=torch.int64, device=logits.device)
            values, logits = logits[..., index], logits.clone()
            logits[..., index] = torch.where(values > 0, values / self.penalty, values * self.penalty)
        weights = probabilities(logits, self.temperature).cpu()
        whole = self.top_k == 0 and self.top_p >= 1
        return Warped(weights if whole else truncated(weights, self.top_k, self.top_p))

    def after(self, token: int, warped: Warped) -> "Plain":
        return replace(self, spoken=self.spoken | {token}) if self.remembers else self


@dataclass(frozen=True)
class RepetitionAware:
    """RAS (VALL-E 2, arXiv 2406.05370), as probabilities, so that speculative decoding can be exact against it.

    VALL-E 2 draws from the nucleus, and once more from the `top_k` where the token fills more than `share` of the last `window`
    tokens: probabilities(x) = nucleus(x) [x is not worn out] + full(x) * (the nucleus's mass of worn-out tokens).
    """

    temperature: float
    top_k: int = 50
    top_p: float = 0.8
    window: int = 25
    share: float = 0.1
    recent: tuple[int, ...] = ()
    remembers: ClassVar[bool] = True

    def warp(self, logits: Tensor) -> Warped:
        full = truncated(probabilities(logits, self.temperature).cpu(), self.top_k, 1.0)
        nucleus = truncated(full, self.top_k, self.top_p)
        worn = [token for token in set(self.recent) if self.recent.count(token) > self.share * self.window]
        if not worn:
            return Warped(nucleus)
        kept = nucleus.clone()
        kept[torch.tensor(worn)] = 0
        return Warped(kept + full * (nucleus.sum() - kept.sum()))

    def after(self, token: int, warped: Warped) -> "RepetitionAware":
        return replace(self, recent=(*self.recent, token)[-self.window :])


@dataclass(frozen=True)
class Competitor:
    """A token that led or was spoken: its `rank` then (1 is best) and its `age` in steps."""

    token: int
    rank: int
    age: int


@dataclass(frozen=True)
class EntropyAware:
    """EAS (MSpoofTTS, arXiv 2603.05373, Algorithm 1): nucleus sampling from s' = s - pi, where pi penalises competitors.

    cluster: leaders that a step leaves behind (k_e). window: steps that they count for. alpha, beta, gamma: weight of a
    competitor, its decay with age, and the largest penalty. Probabilities below zero become zero; where none is left,
    s is drawn from as it is, which the paper leaves open.
    """

    temperature: float
    top_k: int = 50
    top_p: float = 0.8
    cluster: int = 3
    window: int = 15
    alpha: float = 0.2
    beta: float = 0.7
    gamma: float = 0.8
    competitors: tuple[Competitor, ...] = ()
    remembers: ClassVar[bool] = True

    def warp(self, logits: Tensor) -> Warped:
        s = probabilities(logits, self.temperature).cpu()
        sums: defaultdict[int, float] = defaultdict(float)
        for c in self.competitors:
            sums[c.token] += self.alpha / (1 + c.rank) * self.beta**c.age
        weighed = s.clone()
        for token, total in sums.items():  # line 5
            weighed[token] -= min(self.gamma, total)
        leaders = weighed.argsort(descending=True, stable=True)[: self.cluster]
        weights = weighed.clamp(min=0)
        return Warped(truncated(weights if weights.any() else s, self.top_k, self.top_p), tuple(leaders.tolist()))

    def after(self, token: int, warped: Warped) -> "EntropyAware":
        older = tuple(replace(c, age=c.age + 1) for c in self.competitors if c.age + 1 <= self.window)
        ranked = warped.leaders if token in warped.leaders else (*warped.leaders, token)
        newest = tuple(Competitor(leader, rank, 0) for rank, leader in enumerate(ranked, start=1))
        return replace(self, competitors=older + newest)


def sampler_of(settings: "Settings") -> SamplerState:
    """Make the sampler of an utterance. A `top_k` or `top_p` of 0 stands for all tokens ("plain") or the papers' 50 and 0.8."""
    given = {name: value for name in ("top_k", "top_p") if (value := getattr(settings, name))}
    if settings.sampler == "ras":
        return RepetitionAware(settings.temperature, **given)
    if settings.sampler == "eas":
        return EntropyAware(settings.temperature, **given)
    return Plain(settings.temperature, penalty=settings.repetition_penalty, **given)


def warp_rows(states: Sequence[SamplerState], logits: Tensor) -> list[Warped]:
    """Warp each row of `logits [R, V]` by its sampler: all at once where they share one that remembers nothing."""
    if states[0].remembers or any(state != states[0] for state in states):
        return [state.warp(row) for state, row in zip(states, logits, strict=True)]
    return list(map(Warped, states[0].warp(logits).probs))


@dataclass(frozen=True)
class SampledSpan:
    """The `probs [N, V]` at N positions in a row and the sampler before each of them; one alone where nothing is remembered."""

    probs: Tensor
    states: tuple[SamplerState, ...]
    warped: tuple[Warped, ...] = ()

    def after(self, position: int, token: int) -> SamplerState:
        """Return the sampler after `token` was spoken at `position`, whatever was drafted there."""
        return self.states[position].after(token, self.warped[position]) if self.warped else self.states[0]


def sampled_spans(
    states: Sequence[SamplerState], logits: Sequence[Tensor], drafted: Sequence[Sequence[int]]
) -> list[SampledSpan]:
    """Compute each row's probabilities at its drafted positions and behind the last.

    Args:
        states: the sampler of each row before its first drafted token.
        logits: one tensor `[R, N, V]`, or one `[N, V]` for each row; a row's last positions count.
        drafted: the drafted tokens of each row.
    """
    counts = [len(tokens) + 1 for tokens in drafted]
    if isinstance(logits, Tensor) and not states[0].remembers and all(state == states[0] for state in states):
        probs = states[0].warp(logits).probs
        return [SampledSpan(row[-count:], (states[0],)) for row, count in zip(probs, counts, strict=True)]
    spans = []
    for state, rows, count, tokens in zip(states, logits, counts, drafted, strict=True):
        if not state.remembers:
            spans.append(SampledSpan(state.warp(rows[-count:]).probs, (state,)))
            continue
        path, warped = [state], [state.warp(rows[-count])]
        for token, row in zip(tokens, rows[len(rows) - count + 1 :], strict=True):
            path.append(path[-1].after(token, warped[-1]))
            warped.append(path[-1].warp(row))
        spans.append(SampledSpan(torch.stack([w.probs for w in warped]), tuple(path), tuple(warped)))
    return spans
