"""Logits -> the law that tokens are drawn from. Draft and target share it, and exactness is claimed against it."""

from torch import Tensor


def law(logits: Tensor, temperature: float) -> Tensor:
    """Softmax of `logits [..., V]` at `temperature` > 0, float32."""
    return (logits.float() / temperature).softmax(dim=-1)
