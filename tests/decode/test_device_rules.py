"""The tensor programs of the rules decide as the rules do, coin for coin, and need no word from the host."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from pcg.decode.device_rules import CoinBlock, DeviceRule, TokenRule, has_program, on_device
from pcg.groups.groups import Groups
from pcg.rules import THINNING_TRIALS, Coins, Rule, block, coarse, exact, tolerant

CPU, ROUNDS, LOOKAHEAD, VOCABULARY = torch.device("cpu"), 1500, 3, 120


def groups_over(vocabulary: int, seed: int) -> Groups:
    """Overlapping groups: points on a sphere, those near each; the end of speech is alone."""
    points = np.random.default_rng(seed).normal(size=(vocabulary - 1, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    sets = [np.flatnonzero(row >= 0.9) for row in points @ points.T] + [np.array([vocabulary - 1])]
    return Groups.from_sets(0.9, torch.tensor(np.cumsum([0, *map(len, sets)])), torch.tensor(np.concatenate(sets)))


GROUPS = groups_over(VOCABULARY, 0)
RULES = {
    "sd": exact,
    "ssd": tolerant(0.2),
    "pcg": coarse(GROUPS, "thinning"),
    "pcg-dense": coarse(GROUPS, "dense"),
    "singletons": coarse(Groups.singletons(VOCABULARY), "dense"),
}


def case() -> tuple[Tensor, Tensor, Tensor, list[Coins]]:
    generator = torch.Generator().manual_seed(0)
    p, q = ((2 * torch.randn(ROUNDS, n, VOCABULARY, generator=generator)).softmax(-1) for n in (LOOKAHEAD, LOOKAHEAD + 1))
    q[:, :LOOKAHEAD] = 0.6 * p + 0.4 * q[:, :LOOKAHEAD]
    drafted = torch.stack([torch.multinomial(p[:, i], 1, generator=generator)[:, 0] for i in range(LOOKAHEAD)], 1)
    return drafted, p, q, [Coins.draw(LOOKAHEAD, generator) for _ in range(ROUNDS)]


def differing(rule: Rule, program: DeviceRule, change: Callable[[Coins], Coins] = lambda coins: coins) -> int:
    """How many rounds the rule and its tensor program decide differently, tests included."""
    drafted, p, q, coins = case()
    coins = list(map(change, coins))
    got = program(drafted, p, q, CoinBlock.of([coins]).at(torch.zeros(1, dtype=torch.int64)))
    wrong = 0
    for i, own in enumerate(coins):
        verdict = rule(drafted[i], p[i], q[i], own)
        wanted = [verdict.accepted, verdict.next_token, verdict.trials, verdict.next_group, verdict.next_group_size]
        tests = [(t.group, t.group_size, t.mass_p, t.mass_q, t.ratio) for t in verdict.tests]
        columns = (got.group, got.group_size, got.mass_p, got.mass_q, got.ratio)
        found = [tuple(column[i, n].item() for column in columns) for n in range(len(tests))]
        wrong += wanted != [column[i].item() for column in got[:5]] or not np.allclose(tests, found, rtol=1e-6)
    return wrong


@pytest.mark.parametrize("name", RULES)
def test_a_program_decides_as_its_rule_coin_for_coin(name: str) -> None:
    program = on_device(RULES[name], CPU)
    assert differing(RULES[name], program) == 0


def test_where_every_trial_fails_the_dense_draw_replaces_the_token() -> None:
    def never(coins: Coins) -> Coins:
        return replace(coins, thinning=np.concatenate([coins.thinning[:, :2], np.ones((THINNING_TRIALS, 1))], 1))

    assert differing(RULES["pcg"], on_device(RULES["pcg"], CPU), never) == 0


def test_another_tolerance_is_noticed() -> None:
    """The negative control of the comparisons above."""
    assert differing(tolerant(0.2), TokenRule(0.21)) > 0


def test_other_rules_have_no_program() -> None:
    assert not has_program(block)
    assert not has_program(lambda drafted, p, q, coins: exact(drafted, p, q, coins))
    assert all(map(has_program, (None, *RULES.values())))
    assert on_device(None, CPU) == on_device(exact, CPU) == TokenRule()
