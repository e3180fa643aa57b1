"""SD, SSD and PCG as tensor programs of fixed shapes, without a branch: what a CUDA graph can hold.

They compute for a batch of rows what `pcg.rules` computes for one, coin for coin (tested), and run on any device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcg.groups.groups import Groups
from pcg.rules import Coins, Rule, coarse_sampling, exact, speculative_sampling


class CoinBlock(NamedTuple):
    """The coins of R rounds of B rows, float64: the fields of `pcg.rules.Coins`, each with `[R, B]` before its own shape."""

    draft: Tensor
    accept: Tensor
    group: Tensor
    residual: Tensor
    thinning: Tensor
    bonus: Tensor

    @classmethod
    def of(cls, rounds: list[list[Coins]]) -> "CoinBlock":
        """Stack the coins of each round and row."""
        names = cls._fields
        return cls(*(torch.from_numpy(np.array([[getattr(coins, n) for coins in rows] for rows in rounds])) for n in names))

    def at(self, clock: Tensor) -> "CoinBlock":
        """Return the coins of the round whose number `clock [1]` holds, without the axis of rounds."""
        return CoinBlock(*(table.index_select(0, clock)[0] for table in self))


class DeviceVerdicts(NamedTuple):
    """What a rule decided for B rows of L drafted tokens; see `pcg.rules.Verdict` and `pcg.rules.Test`.

    accepted, next_token, trials, next_group, next_size `[B]`; mass_p, mass_q, ratio, group, group_size `[B, L]`.
    """

    accepted: Tensor
    next_token: Tensor
    trials: Tensor
    next_group: Tensor
    next_size: Tensor
    mass_p: Tensor
    mass_q: Tensor
    ratio: Tensor
    group: Tensor
    group_size: Tensor


@dataclass(frozen=True, eq=False)
class DeviceGroups:
    """Acoustic Similarity Groups as lists on a device.

    Group k has the tokens `members[start[k] : start[k] + size[k]]`, token t the groups `holding[first[t] : first[t] +
    count[t]]`, all ascending. share `[V]` is 1 / count (PCG Eq. 3). widest: the largest size, the width of every gather.
    """

    start: Tensor
    size: Tensor
    members: Tensor
    first: Tensor
    count: Tensor
    holding: Tensor
    share: Tensor
    widest: int

    @classmethod
    def of(cls, groups: Groups, device: torch.device) -> "DeviceGroups":
        sizes = groups.sets.sizes
        owners, starts = np.arange(len(groups)).repeat(sizes), sizes.cumsum() - sizes
        entries = groups.sets.entries[(groups.sets.starts - starts).repeat(sizes) + np.arange(sizes.sum())]
        members = entries[np.lexsort((entries, owners))]
        counts = np.bincount(members, minlength=groups.vocabulary)
        lists = (starts, sizes, members, counts.cumsum() - counts, counts, owners[members.argsort(kind="stable")])
        on_device = [torch.from_numpy(np.ascontiguousarray(each, np.int64)).to(device) for each in lists]
        return cls(*on_device, 1 / on_device[4].double(), int(sizes.max()))

    def label(self, tokens: Tensor, coins: Tensor) -> Tensor:
        """Draw a group of each of the `tokens`, uniformly among those that hold it (Eq. 6)."""
        count = self.count[tokens]
        return self.holding[self.first[tokens] + torch.minimum((coins * count).long(), count - 1)]

    def mass(self, probs: Tensor, groups: Tensor) -> Tensor:
        """Compute the masses `[..., K]` of `groups [..., K]` under `probs [..., V]` (Eq. 5)."""
        tokens, inside = self._tokens(groups)
        picked = probs.gather(-1, tokens.flatten(-2)).view(tokens.shape)
        return (picked.double() * self.share[tokens] * inside).sum(-1)

    def masses(self, probs: Tensor) -> Tensor:
        """Compute the masses `[B, M]` of all groups under `probs [B, V]`: a sum over each segment of the members."""
        parts = (probs.double() * self.share)[:, self.members]
        return torch.segment_reduce(parts.T.contiguous(), "sum", lengths=self.size, axis=0, unsafe=True).T

    def draw_within(self, groups: Tensor, probs: Tensor, coins: Tensor) -> Tensor:
        """Draw a token of each of `groups [B]` by `probs [B, V]` (Eq. 10)."""
        tokens, inside = self._tokens(groups)
        weights = probs.gather(1, tokens).double() * self.share[tokens] * inside
        return tokens.gather(1, draw_each(weights, coins[:, None]))[:, 0]

    def _tokens(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Return the members of `groups [...]`, `[..., widest]`, and which of these places are filled."""
        places = torch.arange(self.widest, device=groups.device)
        inside = places < self.size[groups][..., None]
        return self.members[(self.start[groups][..., None] + places).clamp(max=len(self.members) - 1)], inside


def draw_each(weights: Tensor, coins: Tensor) -> Tensor:
    """Draw from non-negative `weights [..., V]` at each of `coins [..., N]`; a weight of zero is never drawn."""
    ends = weights.double().cumsum(-1)
    index = torch.searchsorted(ends, coins * ends[..., -1:], right=True)
    places = torch.arange(weights.shape[-1], device=weights.device)
    return index.minimum(torch.where(weights > 0, places, 0).amax(-1, keepdim=True))


@dataclass(frozen=True)
class TokenRule:
    """SD, and with a tolerance `beta` SSD (SSD Eq. 5 and 6)."""

    beta: float = 0.0

    def __call__(self, drafted: Tensor, p: Tensor, q: Tensor, coins: CoinBlock) -> DeviceVerdicts:
        """drafted `[B, L]`, p `[B, L, V]`, q `[B, L + 1, V]`."""
        p_x, q_x = (probs.gather(-1, drafted[..., None])[..., 0].double() for probs in (p, q[:, :-1]))
        ratio = (capped_ratios(q_x, p_x) + self.beta).clamp(max=1.0)
        accepted, p_next, q_next = at_first_failure(coins.accept < ratio, p, q)
        # Behind the last drafted token p is zero, so the residual is q itself: the bonus token needs no branch.
        residual = (q_next.double() - p_next).clamp(min=0)
        residual = torch.where((residual > 0).any(-1, keepdim=True), residual, q_next.double())
        coin = torch.where(accepted == drafted.shape[1], coins.bonus, coins.residual[:, 0])
        zero, alone = torch.zeros_like(accepted), torch.ones_like(drafted)
        next_token = draw_each(residual, coin[:, None])[:, 0]
        return DeviceVerdicts(accepted, next_token, zero, zero - 1, zero + 1, p_x, q_x, ratio, -alone, alone)


@dataclass(frozen=True, eq=False)
class GroupRule:
    """PCG (Eq. 7 to 10): by thinning, all trials at once, with the dense draw of the same distribution behind them."""

    groups: DeviceGroups
    thinning: bool = True

    def __call__(self, drafted: Tensor, p: Tensor, q: Tensor, coins: CoinBlock) -> DeviceVerdicts:
        """drafted `[B, L]`, p `[B, L, V]`, q `[B, L + 1, V]`."""
        groups = self.groups
        group = groups.label(drafted, coins.group)
        mass_p, mass_q = (groups.mass(probs, group[..., None])[..., 0] for probs in (p, q[:, :-1]))
        ratio = capped_ratios(mass_q, mass_p)
        accepted, p_next, q_next = at_first_failure(coins.accept < ratio, p, q)
        token, next_group, trials = self._dense(p_next, q_next, coins)
        if self.thinning:
            tried = draw_each(q_next, coins.thinning[..., 0])
            labels = groups.label(tried, coins.thinning[..., 1])
            passed = coins.thinning[..., 2] < 1 - groups.mass(p_next, labels) / groups.mass(q_next, labels)
            at, found = passed.int().argmax(1, keepdim=True), passed.any(1)
            token = torch.where(found, tried.gather(1, at)[:, 0], token)
            next_group = torch.where(found, labels.gather(1, at)[:, 0], next_group)
            trials = torch.where(found, at[:, 0] + 1, passed.shape[1])
        bonus = accepted == drafted.shape[1]
        next_token = torch.where(bonus, draw_each(q_next, coins.bonus[:, None])[:, 0], token)
        next_size = torch.where(bonus, 1, groups.size[next_group])
        next_group, trials = torch.where(bonus, -1, next_group), torch.where(bonus, 0, trials)
        tests = (mass_p, mass_q, ratio, group, groups.size[group])
        return DeviceVerdicts(accepted, next_token, trials, next_group, next_size, *tests)

    def _dense(self, p: Tensor, q: Tensor, coins: CoinBlock) -> tuple[Tensor, Tensor, Tensor]:
        """Draw K ~ [Q_c - P_c]_+ over all groups (Eq. 8), then a token of it by q."""
        excess = self.groups.masses(q.double() - p).clamp(min=0)
        excess = torch.where((excess > 0).any(-1, keepdim=True), excess, self.groups.masses(q))
        group = draw_each(excess, coins.residual[:, :1])[:, 0]
        return self.groups.draw_within(group, q, coins.residual[:, 1]), group, torch.zeros_like(group)


DeviceRule = Callable[[Tensor, Tensor, Tensor, CoinBlock], DeviceVerdicts]
"""drafted `[B, L]`, p `[B, L, V]`, q `[B, L + 1, V]` and coins to verdicts; hashable, since a graph is recorded for each."""


def has_program(rule: Rule | None) -> bool:
    """Return whether `on_device` knows a rule: None (AR), `exact`, `tolerant`, `coarse`, or one with a `program` of its own."""
    known = isinstance(rule, partial) and rule.func in (speculative_sampling, coarse_sampling)
    return known or rule in (None, exact) or hasattr(rule, "program")


def on_device(rule: Rule | None, device: torch.device) -> DeviceRule:
    """Make the tensor program of a rule that has one."""
    if rule in (None, exact):  # AR tests nothing, and draws as after a full acceptance
        return TokenRule()
    if hasattr(rule, "program"):
        return rule.program()
    if rule.func is speculative_sampling:
        return TokenRule(**rule.keywords)
    return GroupRule(DeviceGroups.of(rule.keywords["groups"], device), rule.keywords["residual"] == "thinning")


def capped_ratios(q: Tensor, p: Tensor) -> Tensor:
    """min(1, q / p), and zero where q is zero."""
    return torch.where(q >= p, 1.0, q / p) * (q > 0)


def at_first_failure(passed: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Count the tests that passed before the first failure, `[B]`; pick the rows of draft and target there, `[B, V]`."""
    accepted = passed.int().cumprod(1).sum(1)
    rows = torch.arange(len(q), device=q.device)
    padded = torch.cat([p, torch.zeros_like(q[:, :1])], 1)
    return accepted, padded[rows, accepted], q[rows, accepted]
