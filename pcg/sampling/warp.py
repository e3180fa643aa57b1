"""Logits -> probabilities: temperature, repetition penalty, top-k and top-p, each a function of one position.

Draft and target share them, and exactness is claimed against them.
"""

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor

from pcg.models.kernel.arithmetic import soften_rows


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """Softmax of `logits [..., V]` at `temperature` > 0, float32; on a CPU as a compiled draft computes it."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and not logits.requires_grad:
        rows = np.ascontiguousarray(logits.numpy().reshape(-1, logits.shape[-1]))
        return torch.from_numpy(soften_rows(rows, temperature)).view(logits.shape)
    return (logits.float() / temperature).softmax(dim=-1)


def penalised(logits: Tensor, spoken: Collection[int], penalty: float) -> Tensor:
    """`logits [..., V]` with those of the `spoken` tokens divided by `penalty` where positive, else multiplied by it (Keskar et
    al., arXiv 1909.05858, section 4.1)."""
    if penalty == 1 or not spoken:
        return logits
    index = torch.tensor(sorted(spoken), dtype=torch.int64, device=logits.device)
    values, changed = logits[..., index], logits.clone()
    changed[..., index] = torch.where(values > 0, values / penalty, values * penalty)
    return changed


def truncated(weights: Tensor, top_k: int, top_p: float) -> Tensor:
    """`weights [..., V]` (non-negative), normalised, with zeros for all but the `top_k` heaviest (0 keeps all), and among these
    for all but the fewest heaviest ones that hold the share `top_p` of their sum.

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
