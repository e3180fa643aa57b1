"""The interface of samplers: a Memory turns logits into probabilities, and a drawn token into the next Memory.

A Memory is immutable. To roll back is to go on from an older one, so a rejected draft leaves no trace in it. Target and draft
share the target's: the draft goes on from it on a fork of its own, which is dropped when the round is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Warped:
    """The `probs [V]` that a token is drawn from, and the `leaders` that compete for it, best first (empty where the
    sampler does not look at them)."""

    probs: Tensor
    leaders: tuple[int, ...] = ()


class Memory(Protocol):
    """What a sampler keeps of an utterance."""

    @property
    def remembers(self) -> bool:
        """Whether the probabilities depend on the tokens before; if not, `warp` takes logits of any number of positions at
        once."""
        ...

    def warp(self, logits: Tensor) -> Warped:
        """The probabilities behind `logits [V]` at this point of the utterance, float32 on the CPU."""
        ...

    def after(self, token: int, warped: Warped) -> Self:
        """The memory when `token` has been spoken by `warped`."""
        ...


def warp_each(memories: Sequence[Memory], logits: Tensor) -> list[Warped]:
    """The probabilities of each row of `logits [R, V]` by its memory: all at once where they share one that remembers
    nothing."""
    if memories[0].remembers or any(memory != memories[0] for memory in memories):
        return [memory.warp(each) for memory, each in zip(memories, logits, strict=True)]
    return list(map(Warped, memories[0].warp(logits).probs))


@dataclass(frozen=True)
class Trail:
    """The `probs [N, V]` at N positions in a row, and before each of them the memory; just one where nothing is remembered."""

    probs: Tensor
    memories: tuple[Memory, ...]
    warped: tuple[Warped, ...] = ()

    def after(self, position: int, token: int) -> Memory:
        """The memory when `token` has been spoken at `position`, whatever was drafted there."""
        return self.memories[position].after(token, self.warped[position]) if self.warped else self.memories[0]


def trails(memories: Sequence[Memory], logits: Sequence[Tensor], drafted: Sequence[Sequence[int]]) -> list[Trail]:
    """For each row the probabilities if its `drafted` tokens are spoken one after another: those at the drafted positions and
    behind the last. `logits`: one tensor `[R, N, V]`, or one `[N, V]` for each row; the row's last ones are about the end."""
    counts = [len(tokens) + 1 for tokens in drafted]
    if isinstance(logits, Tensor) and not memories[0].remembers and all(memory == memories[0] for memory in memories):
        probs = memories[0].warp(logits).probs
        return [Trail(each[-count:], (memories[0],)) for each, count in zip(probs, counts, strict=True)]
    rows = zip(memories, logits, counts, drafted, strict=True)
    return [_trail(memory, each[-count:], tokens) for memory, each, count, tokens in rows]


def _trail(memory: Memory, logits: Tensor, drafted: Sequence[int]) -> Trail:
    if not memory.remembers:
        return Trail(memory.warp(logits).probs, (memory,))
    memories, warped = [memory], [memory.warp(logits[0])]
    for token, each in zip(drafted, logits[1:], strict=True):
        memories.append(memories[-1].after(token, warped[-1]))
        warped.append(memories[-1].warp(each))
    return Trail(torch.stack([w.probs for w in warped]), tuple(memories), tuple(warped))
