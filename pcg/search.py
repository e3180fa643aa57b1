"""What a hierarchical search looked at: a Branch is one beam, a Cycle all beams between two choices."""

from collections.abc import Mapping
from dataclasses import dataclass

from pcg.take import Round


@dataclass(frozen=True)
class Branch:
    """One beam of one cycle: what it said, how real each detector that saw it found it (0..1), after how many stages it was
    pruned (3: never), and its weighted rank (lower is better; None where it was pruned before)."""

    number: int
    rounds: tuple[Round, ...]
    scores: Mapping[str, float]
    stages: int
    rank: float | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for round_ in self.rounds for token in round_.tokens)


@dataclass(frozen=True)
class Cycle:
    """All beams from token `start` on, and the number of the one that stayed; the warm-up has one beam, which nobody judged."""

    start: int
    branches: tuple[Branch, ...]
    chosen: int

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.branches[self.chosen].rounds

    @property
    def computed(self) -> int:
        """Tokens that the target read, in all branches."""
        return sum(len(round_.drafted) + 1 for branch in self.branches for round_ in branch.rounds)
