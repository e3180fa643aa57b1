"""What the draft proposes: tokens, and the whole law that each was drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pcg.decoding.laws import law
from pcg.decoding.state import Readers
from pcg.rules.verdict import draw

ENTROPY_WEIGHT = 0.2


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens `[L]` (int64) and their laws `[L, V]`; L may be 0 where drafting looked hopeless from the start."""

    drafted: Tensor
    laws: Tensor


def propose(
    draft: Readers,
    rows: Sequence[int],
    unread: Sequence[Sequence[int]],
    coins: Sequence[Tensor],
    temperature: float,
    confidence: float | None = None,
) -> list[Proposal]:
    """Draft behind the `unread` tokens of each row, a token for each of the row's `coins`.

    With `confidence`, a row stops drafting where the draft's law p gives less hope than that of being accepted, by AdaEDL's
    entropy bound 1 - sqrt(gamma H(p)) (Agrawal et al., arXiv 2410.18351; gamma 0.2, H in nats). It looks at p before the token
    is drawn, never at the token or at q, so the verified tokens' law is not touched.
    """
    tokens: dict[int, list[int]] = {row: [] for row in rows}
    laws: dict[int, list[Tensor]] = {row: [] for row in rows}
    going = dict(zip(rows, unread, strict=True))
    coin_of = dict(zip(rows, (c.tolist() for c in coins), strict=True))
    for position in range(len(coins[0])):
        p = law(draft.feed(list(going), list(going.values()), 1)[:, 0], temperature).cpu()
        hopeless = [confidence is not None and acceptance_bound(each) < confidence for each in p]
        following = {}
        for row, each, stop in zip(going, p, hopeless, strict=True):
            if not stop:
                tokens[row].append(draw(each, coin_of[row][position]))
                laws[row].append(each)
                following[row] = tokens[row][-1:]
        going = following
        if not going:
            break
    empty = torch.empty(0, draft.vocabulary_size)
    return [Proposal(torch.tensor(tokens[r], dtype=torch.int64), torch.stack(laws[r]) if laws[r] else empty) for r in rows]


def acceptance_bound(p: Tensor) -> float:
    """AdaEDL's estimate of the chance that a token of the law `p [V]` is accepted, from its entropy alone."""
    return 1.0 - (ENTROPY_WEIGHT * float(torch.special.entr(p).sum())) ** 0.5
