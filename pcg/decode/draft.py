"""What a draft proposes: tokens, and the probabilities that each was drawn from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.models.vocabulary import Vocabulary
from pcg.sampling import SamplerState
from pcg.text.prompt import Prompt

ENTROPY_WEIGHT = 0.2


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens `[L]` (int64) and their probabilities `[L, V]`; L may be 0 where drafting looked hopeless from the
    start."""

    drafted: Tensor
    probs: Tensor

    def first(self, count: int) -> "Proposal":
        """No more than the first `count` tokens."""
        return self if count >= len(self.drafted) else Proposal(self.drafted[:count], self.probs[:count])


@dataclass(frozen=True, eq=False)
class RowRequest:
    """What a model reads in one row: the `unread` emitted tokens, then `drafted` ones to be verified; or, for a draft, which
    draws a token by each of `coins [L]`."""

    row: int
    unread: Sequence[int]
    sampler: SamplerState
    drafted: Sequence[int] = ()
    coins: np.ndarray | Tensor | None = None


def acceptance_bound(p: Tensor) -> float:
    """How probable it is that a token of the draft's probabilities `p [V]` will be accepted, judged by their entropy alone.

    AdaEDL's bound 1 - sqrt(gamma H(p)) (Agrawal et al., arXiv 2410.18351), with gamma 0.2 and H in nats.
    """
    return 1.0 - (ENTROPY_WEIGHT * float(torch.special.entr(p).sum())) ** 0.5


def entropy_limit(confidence: float | None) -> float:
    """The entropy in nats above which `acceptance_bound` is below `confidence`: infinite without one."""
    if confidence is None:
        return math.inf
    return (1.0 - confidence) ** 2 / ENTROPY_WEIGHT if confidence <= 1 else -math.inf


@dataclass(frozen=True)
class PromptLookup:
    """A draft that proposes the code which last followed the newest codes: the newest `longest` of them where these occurred
    before, else fewer, down to `shortest`, else nothing. Raises InputError unless 1 <= shortest <= longest."""

    vocabulary: Vocabulary
    longest: int = 3
    shortest: int = 1

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise InputError("longest", self.longest, "a number of codes from 1 on")
        if not 1 <= self.shortest <= self.longest:
            raise InputError("shortest", self.shortest, f"a number of codes from 1 to {self.longest}")

    def runners(self, prompts: Sequence[Prompt]) -> "LookupRunner":
        return LookupRunner(self, prompts)


class LookupRunner:
    """Takes the place of a draft's `ModelRunner`: what each of B rows has heard, the speech codes of its prompt first."""

    def __init__(self, draft: PromptLookup, prompts: Sequence[Prompt]) -> None:
        self._draft = draft
        self._heard, self._prompted = [""] * len(prompts), [0] * len(prompts)
        for row, prompt in enumerate(prompts):
            self.put(row, prompt)

    def put(self, row: int, prompt: Prompt) -> None:
        """Begin anew in `row`, with another prompt."""
        self._heard[row] = _spelled(_codes(prompt, self._draft.vocabulary))
        self._prompted[row] = len(self._heard[row])

    @property
    def batch(self) -> int:
        return len(self._heard)

    @property
    def vocabulary_size(self) -> int:
        return self._draft.vocabulary.size

    def prefill(self, rows: Sequence[int] | None = None) -> None:
        """Nothing to compute: prompts are looked up as they are."""

    def read(self, row: int) -> int:
        return len(self._heard[row]) - self._prompted[row]

    def propose(self, requests: Sequence[RowRequest], confidence: float | None = None) -> list[Proposal]:
        """Copy behind the unread tokens of each row up to as many tokens as it has coins.

        Each is looked up behind those before it, so p, like a model's, depends on nothing but the text. p is certain, so coins
        and samplers change nothing, and with its entropy of 0 no `confidence` up to 1 stops the draft.
        """
        proposals = []
        for request in requests:
            self._heard[request.row] += _spelled(request.unread)
            drafted = torch.tensor(self._copies(self._heard[request.row], len(request.coins)), dtype=torch.int64)
            probs = torch.zeros(len(drafted), self.vocabulary_size)
            probs[torch.arange(len(drafted)), drafted] = 1.0
            proposals.append(Proposal(drafted, probs))
        return proposals

    def fork(self, source: int, rows: Sequence[int]) -> None:
        """Let `rows` have heard what `source` has heard."""
        for row in rows:
            self._heard[row] = self._heard[source]

    def roll_back(self, row: int, read: int) -> None:
        """Forget all but the first `read` speech tokens of `row`."""
        if not 0 <= read <= self.read(row):
            raise ValueError(f"cannot roll back to {read}: {self.read(row)} tokens were read")
        self._heard[row] = self._heard[row][: self._prompted[row] + read]

    def _copies(self, heard: str, count: int) -> list[int]:
        """Up to `count` tokens, each what followed the newest ones, the copied ones among them."""
        copied: list[int] = []
        while len(copied) < count and (token := self._following(heard)) is not None:
            copied.append(token)
            heard += chr(token)
        return copied

    def _following(self, heard: str) -> int | None:
        """What followed the last earlier occurrence of the longest end of `heard` that has one."""
        for length in range(min(self._draft.longest, len(heard) - 1), self._draft.shortest - 1, -1):
            at = heard.rfind(heard[-length:], 0, len(heard) - 1)
            if at >= 0:
                return ord(heard[at + length])
        return None


def _spelled(tokens: Sequence[int]) -> str:
    """A character a token, as nothing searches faster for a few tokens among thousands than a string does."""
    return "".join(map(chr, tokens))


def _codes(prompt: Prompt, vocabulary: Vocabulary) -> list[int]:
    """The speech codes in a prompt, which holds text as well."""
    codes = prompt.ids - vocabulary.first_code
    return codes[(codes >= 0) & (codes < vocabulary.codes)].tolist()
