"""How far a draft's probabilities are from its target's, and its gradient, in chunks: neither is ever held whole."""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

CHUNK = 1 << 20
"""Probabilities at once: what a cache holds is an order of magnitude faster than what memory holds."""


def divergence(
    hidden: Tensor,
    head: Tensor,
    wanted: Tensor,
    wanted_head: Tensor,
    weights: Tensor,
    kl: float,
    tv: float,
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """The sum over steps k and positions i of `weights [K, n]` times kl KL(q_i || p_ki) + tv TV(q_i, p_ki).

    p = softmax(hidden head^T / temperature) from `hidden [K, n, R]` and `head [V, R]`; q likewise from `wanted [n, D]` and
    `wanted_head [V, D]`, which do not learn. Also the overlaps sum min(p, q) = 1 - TV, `[K, n]`, without a gradient. TV as a
    draft's loss: Samarin et al., arXiv 2602.23881.
    """
    return _Divergence.apply(hidden, head, wanted, wanted_head, weights, kl, tv, temperature)


class _Divergence(torch.autograd.Function):
    """The gradient is made in the forward pass, while a chunk's probabilities are there."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        head: Tensor,
        wanted: Tensor,
        wanted_head: Tensor,
        weights: Tensor,
        kl: float,
        tv: float,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        steps, count = weights.shape
        chunk = max(1, CHUNK // len(head))
        loss, overlap = hidden.new_zeros((), dtype=torch.float32), torch.empty_like(weights)
        to_hidden = torch.empty_like(hidden)
        to_head = torch.zeros_like(head, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        with torch.autocast(hidden.device.type, enabled=False):
            for first in range(0, count, chunk):
                part = slice(first, first + chunk)
                q, entropy = _target(wanted[part] @ wanted_head.T, temperature)
                for step in range(steps):
                    w = weights[step, part]
                    z = (hidden[step, part] @ head.T).float().div_(temperature)
                    lse = z.logsumexp(-1, keepdim=True)
                    divergent = lse[:, 0] - torch.linalg.vecdot(q, z) - entropy
                    p = z.sub_(lse).exp_()
                    both = torch.minimum(p, q).sum(-1)
                    overlap[step, part] = both
                    loss += (w * (kl * divergent + tv * (1 - both))).sum()
                    gradient = _gradient(p, q, kl, tv).mul_(w[:, None] / temperature).to(hidden.dtype)
                    to_hidden[step, part] = gradient @ head
                    if to_head is not None:
                        to_head += (gradient.T @ hidden[step, part]).float()
        ctx.save_for_backward(to_hidden, *([] if to_head is None else [to_head.to(head.dtype)]))
        ctx.mark_non_differentiable(overlap)
        return loss, overlap

    @staticmethod
    def backward(ctx: FunctionCtx, by: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [(by * saved).to(saved.dtype) for saved in ctx.saved_tensors]
        return (*gradients, *[None] * (8 - len(gradients)))


def _target(logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The target's probabilities `[c, V]` and their entropies `[c]`."""
    z = logits.float().div_(temperature)
    lse = z.logsumexp(-1, keepdim=True)
    q = (z - lse).exp_()
    return q, lse[:, 0] - torch.linalg.vecdot(q, z)


def _gradient(p: Tensor, q: Tensor, kl: float, tv: float) -> Tensor:
    """By the logits z of p: kl (p - q) + tv p (m - [p < q]), where m is the mass of p where it is below q."""
    below = p * (p < q)
    change = p * (tv * below.sum(-1, keepdim=True) + kl)
    return change.sub_(below, alpha=tv).sub_(q, alpha=kl)
