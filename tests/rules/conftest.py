"""A small world for the rules: overlapping groups over seven codes and the end of speech, laws that disagree, and coins."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pcg.groups.groups import Groups
from pcg.rules import THINNING_TRIALS, Coins, Rule, Verdict
from pcg.sampling import draw

EOS = 7


@pytest.fixture(scope="session")
def groups() -> Groups:
    """Codes 0 and 1 share one set, 2 .. 5 form an overlapping chain, 6 and the end of speech (7) stand alone."""
    sets = [[0, 1], [0, 1], [2, 3], [2, 3, 4], [3, 4, 5], [4, 5], [6], [EOS]]
    starts = torch.tensor([0] + [len(s) for s in sets]).cumsum(0)
    return Groups.from_sets(0.4, starts, torch.cat([torch.tensor(s) for s in sets]))


@pytest.fixture(scope="session")
def laws() -> tuple[Tensor, Tensor]:
    """Draft laws `[2, 8]` and target laws `[3, 8]`: equal at position 0, so that every round tests position 1."""
    p = torch.tensor(
        [[0.1, 0.2, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1], [0.05, 0.1, 0.35, 0.02, 0.03, 0.05, 0.1, 0.3]], dtype=torch.float64
    )
    q = torch.tensor([[0.2, 0.15, 0.05, 0.1, 0.25, 0.05, 0.15, 0.05], [0.125] * 8], dtype=torch.float64)
    return p, torch.cat([p[:1], q])


@pytest.fixture(scope="session")
def coins() -> Callable[..., Coins]:
    """Coins that are all 0.5 but for those named: lists for the fields of Coins."""

    def make(lookahead: int = 2, **named: object) -> Coins:
        fields = {name: torch.full((lookahead,), 0.5, dtype=torch.float64) for name in ("draft", "accept", "group")}
        fields["residual"] = torch.full((2,), 0.5, dtype=torch.float64)
        fields["thinning"] = torch.full((THINNING_TRIALS, 3), 0.5, dtype=torch.float64)
        fields |= {name: torch.as_tensor(value, dtype=torch.float64) for name, value in named.items() if name != "bonus"}
        return Coins(**fields, bonus=float(named.get("bonus", 0.5)))

    return make


@pytest.fixture(scope="session")
def play() -> Callable[..., list[Verdict]]:
    """Rounds of a rule under seeded coins, the drafted tokens drawn from p as the decoding loop draws them."""

    def run(rule: Rule, p: Tensor, q: Tensor, rounds: int, seed: int = 0) -> list[Verdict]:
        generator = torch.Generator().manual_seed(seed)
        verdicts = []
        for _ in range(rounds):
            coins = Coins.draw(len(p), generator)
            drafted = torch.tensor([draw(law, float(coin)) for law, coin in zip(p, coins.draft, strict=True)])
            verdicts.append(rule(drafted, p, q, coins))
        return verdicts

    return run


@pytest.fixture(scope="session")
def random_laws() -> Callable[..., tuple[Tensor, Tensor]]:
    """Float32 laws p `[L, V]` and q `[L + 1, V]` as a model would give them, related but not equal."""

    def make(vocabulary: int, lookahead: int, seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(lookahead + 1, vocabulary, generator=generator)
        drafts = logits[:lookahead] + torch.randn(lookahead, vocabulary, generator=generator)
        return drafts.softmax(-1), logits.softmax(-1)

    return make


@pytest.fixture(scope="session")
def distance() -> Callable[[list[int], Tensor], float]:
    """Total variation between the empirical law of `outcomes` and `law`."""

    def total_variation(outcomes: list[int], law: Tensor) -> float:
        empirical = torch.tensor(outcomes).bincount(minlength=len(law)).double() / len(outcomes)
        return float((empirical - law).abs().sum() / 2)

    return total_variation
