"""Logits -> law: temperature, repetition penalty, top-k and top-p, each a function of one position."""

from collections.abc import Iterable

import torch
from torch import Tensor


def penalised(logits: Tensor, spoken: Iterable[int], penalty: float) -> Tensor:
    """`logits [V]` with those of the `spoken` tokens divided by `penalty` where positive, else multiplied by it (Keskar et
    al., arXiv 1909.05858, section 4.1)."""
    index = torch.tensor(sorted(spoken), dtype=torch.int64)
    if penalty == 1 or not len(index):
        return logits
    values, changed = logits[index], logits.clone()
    changed[index] = torch.where(values > 0, values / penalty, values * penalty)
    return changed


def truncated(weights: Tensor, top_k: int, top_p: float) -> Tensor:
    """`weights [V]` (non-negative) but for all behind the `top_k` heaviest (0: none), and of these for all behind the first
    ones that hold the share `top_p` of their sum; normalised.

    Of equal weights those of lower indices are the heavier.
    """
    count = min(top_k, len(weights)) if top_k else len(weights)
    if count == len(weights) and top_p >= 1:
        return weights / weights.sum()
    order = weights.argsort(descending=True, stable=True)[:count]
    kept = weights[order].double()
    before = kept.cumsum(0) - kept
    kept = torch.where(before < top_p * kept.sum(), kept, 0)
    law = torch.zeros_like(weights)
    law[order] = (kept / kept.sum()).to(weights.dtype)
    return law
