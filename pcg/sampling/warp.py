"""Logits -> probabilities: temperature, repetition penalty, top-k and top-p, each a function of one position.

Draft and target share them, and exactness is claimed against them.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """Softmax of `logits [..., V]` at `temperature` > 0, float32."""
    return (logits.float() / temperature).softmax(dim=-1)


def penalised(logits: Tensor, spoken: Iterable[int], penalty: float) -> Tensor:
    """`logits [..., V]` with those of the `spoken` tokens divided by `penalty` where positive, else multiplied by it (Keskar et
    al., arXiv 1909.05858, section 4.1)."""
    index = torch.tensor(sorted(spoken), dtype=torch.int64, device=logits.device)
    if penalty == 1 or not len(index):
        return logits
    values, changed = logits[..., index], logits.clone()
    changed[..., index] = torch.where(values > 0, values / penalty, values * penalty)
    return changed


def truncated(weights: Tensor, top_k: int, top_p: float) -> Tensor:
    """`weights [..., V]` (non-negative) but for all behind the `top_k` heaviest (0: none), and of these for all behind the
    first ones that hold the share `top_p` of their sum; normalised.

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
