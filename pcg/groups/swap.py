"""The intra-group swap stress test (PCG section 4, Table 2): may the members of a group really stand for each other?"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pcg.errors import InputError
from pcg.settings import SIMILARITIES, bounds

if TYPE_CHECKING:  # they bring in torch, and experiments are declared and read without it
    from torch import Generator, Tensor

    from pcg.groups.groups import Groups

REPLACEMENTS = ("group", "random")
SWAP_STREAM = 1


@dataclass(frozen=True)
class Swap:
    """Replaces every token of a finished utterance that is not alone in its group at `theta`.

    replacement: "group", by another member, or "random", at the same places by any other code of the corpus (a control).
    """

    theta: float
    similarity: str = "cosine"
    replacement: str = "group"

    def __post_init__(self) -> None:
        bounds("theta").check("theta", self.theta)
        if self.similarity not in SIMILARITIES:
            raise InputError("similarity", self.similarity, "one of " + ", ".join(SIMILARITIES))
        if self.replacement not in REPLACEMENTS:
            raise InputError("replacement", self.replacement, "one of " + ", ".join(REPLACEMENTS))
        # An equal swap is written in one way, wherever it is used as a key.
        object.__setattr__(self, "theta", float(self.theta))


@dataclass(frozen=True)
class Swapped:
    """An utterance after a swap: its `tokens`, and the `positions`, ascending, at which one was replaced.

    group_sizes: |G(t)| of every token before the swap.
    """

    tokens: tuple[int, ...]
    positions: tuple[int, ...] = field(repr=False)
    group_sizes: tuple[int, ...] = field(repr=False)

    @property
    def share(self) -> float:
        """Return replaced tokens over all tokens: the paper's "Swap %" as a fraction; 0 for an empty utterance."""
        return len(self.positions) / len(self.tokens) if self.tokens else 0.0

    @property
    def mean_group_size(self) -> float:
        """Return the mean of |G(t)| over the utterance's tokens; 0 if it is empty."""
        return sum(self.group_sizes) / len(self.group_sizes) if self.group_sizes else 0.0


def swap_coins(seed: int) -> "Generator":
    """Return the generator for `swap` in a take of this seed, independent of the coins that chose its tokens."""
    import torch

    state = np.random.SeedSequence([seed, SWAP_STREAM]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state))


def swap(tokens: Sequence[int], groups: "Groups", swap: Swap, usable: "Tensor", generator: "Generator") -> Swapped:
    """Replace speech codes of `tokens [T]` as `swap` says; `groups` are those at its theta, by its similarity.

    The group of a token t is the one around it, G(t); each other member is as likely as any. usable `[codes]`, bool: the codes
    that "random" draws from. Every token takes two coins from `generator`, whatever `swap` is, so equal generators give equal
    coins to both replacements. Raises InputError for a token that is no speech code, and where "random" has no other code.
    """
    import torch

    codes = groups.vocabulary - 1
    if strange := [token for token in tokens if not 0 <= token < codes]:
        raise InputError("token", strange[0], f"a speech code from 0 to {codes - 1}")
    spoken = torch.tensor(tokens, dtype=torch.int64)
    sizes = groups.sizes[groups.group_of_centre[spoken]]
    # The first row of coins chose places, when a swap could leave some out: seeds keep their swaps.
    _, draws = torch.rand(2, len(spoken), generator=generator, dtype=torch.float64)
    positions, everything, after = (sizes > 1).nonzero()[:, 0].tolist(), usable.nonzero()[:, 0], list(tokens)
    for i in positions:
        pool = everything if swap.replacement == "random" else groups.members_of(int(groups.group_of_centre[tokens[i]]))
        others = pool[pool != tokens[i]]
        if not len(others):
            raise InputError("codes to draw from", len(pool), "at least one other than the token")
        after[i] = int(others[int(draws[i] * len(others))])
    return Swapped(tuple(after), tuple(positions), tuple(sizes.tolist()))
