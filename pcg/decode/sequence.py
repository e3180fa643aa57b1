"""A DecodingSequence is one row of a batch while it speaks: what it has said, what its sampler remembers, how far it may go."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch

from pcg.decode.lookahead import Acceptances
from pcg.sampling import SamplerState
from pcg.takes.take import Round


@dataclass
class DecodingSequence:
    """`emitted` holds token indices without the end of speech. `limit`: the most tokens of the whole utterance. `pause`: a loop
    stops before its next call, and can be taken up again, where as many tokens are emitted; the last call may go beyond it.
    `past`: the tests of its rounds so far."""

    row: int
    limit: int
    generator: torch.Generator
    memory: SamplerState
    pause: int | None = None
    emitted: list[int] = field(default_factory=list)
    ended: bool = False
    past: Acceptances = field(default_factory=Acceptances)

    @property
    def speaking(self) -> bool:
        goal = self.limit if self.pause is None else min(self.limit, self.pause)
        return not self.ended and len(self.emitted) < goal

    def say(self, round_: Round, memory: SamplerState) -> None:
        self.emitted += round_.tokens
        self.ended |= round_.ended
        self.memory = memory

    def fork(self, row: int, generator: torch.Generator) -> Self:
        """Itself again in another row, with coins of its own."""
        return replace(self, row=row, generator=generator, emitted=list(self.emitted))


def begin(memory: SamplerState, limits: Sequence[int], generators: Sequence[torch.Generator]) -> list[DecodingSequence]:
    """Utterances that have said nothing, one in each row, all with the same sampler."""
    return [
        DecodingSequence(row, limit, each, memory) for row, (limit, each) in enumerate(zip(limits, generators, strict=True))
    ]
