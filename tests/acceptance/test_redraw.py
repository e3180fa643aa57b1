"""PCG with a re-draw, by enumeration of whole rounds of two drafted tokens, the second conditioned on the first.

Tokens are exact with one drafted token a round. With two, a re-draw after full acceptances keeps the probabilities of groups,
and makes those of the round's last drafted position exact.
"""

from functools import cache
from itertools import product
from math import prod

import pytest
import torch

from pcg.acceptance.coarse_grained import coarse
from pcg.groups.groups import Groups

ALMOST_ONE = 1 - 2**-53
CODES = 3
ALIKE = pytest.mark.parametrize("groups", ["overlapping", "singletons"], indirect=True)


class World:
    """Draft and target laws of the first token, `[V]`, and of the second behind each first, `[V, V]`."""

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self.p, self.q = (2 * torch.randn(2, CODES, generator=generator, dtype=torch.float64)).softmax(-1)
        self.p2, self.q2 = (2 * torch.randn(2, CODES, CODES, generator=generator, dtype=torch.float64)).softmax(-1)


@pytest.fixture(scope="module")
def world():
    return World(seed=3)


@pytest.fixture(scope="module")
def groups(request):
    """Each code belongs to more than one group; or, on request, to its own alone."""
    if getattr(request, "param", "overlapping") == "singletons":
        return Groups.singletons(CODES)
    return Groups.from_sets(0.4, torch.tensor([0, 2, 5, 7]), torch.tensor([0, 1, 0, 1, 2, 1, 2]))


@pytest.fixture(scope="module")
def rounds(world, groups, coins, shares):
    """All rounds of a rule as (chance, emitted tokens, their groups, kind of the last): exact, but for the bonus token."""

    @cache
    def enumerate_(redraw, lookahead=2):
        return [
            each
            for drafted in product(range(CODES), repeat=lookahead)
            for labels in product(*(label_coins(token) for token in drafted))
            for each in turns(coarse(groups, redraw=redraw), drafted, labels)
        ]

    def label_coins(token):
        count = int(groups.count[token])
        return [(j + 0.5) / count for j in range(count)]

    def turns(rule, drafted, labels):
        p = torch.stack([world.p, world.p2[drafted[0]]])[: len(drafted)]
        q = torch.stack([world.q, world.q2[drafted[0]], world.q])[: len(drafted) + 1]

        def play(accept, outer=0.5, inner=0.5):
            flip = coins(group=labels, accept=accept, residual=[outer, inner])
            return rule(torch.tensor(drafted), p, q, flip)

        ratios = [test.ratio for test in play([0.0] * len(drafted)).tests]
        chance = prod(float(law[token] / groups.count[token]) for law, token in zip(p, drafted, strict=True))
        for count in range(len(drafted) + 1):
            accept = [0.0] * count + [ALMOST_ONE] * (len(drafted) - count)
            reached = chance * prod(ratios[:count]) * (1 - ratios[count] if count < len(drafted) else 1.0)
            if reached == 0:
                continue
            for _, outer, wide in shares(lambda coin, a=accept: play(a, coin).next_group):
                for _, inner, long in shares(lambda coin, a=accept, o=outer: play(a, o, coin).next_token):
                    verdict = play(accept, outer, inner)
                    tokens = (*drafted[: verdict.accepted], verdict.next_token)
                    inside = (*(test.group for test in verdict.tests[: verdict.accepted]), verdict.next_group)
                    yield reached * wide * long, tokens, inside, verdict.next_kind

    return enumerate_


@pytest.fixture
def emitted(rounds, groups):
    """Of rounds of two drafts: the first token by its group, `[M, V]`; the second's group by the first token where the round
    emitted both, `[V, M]`; and the first token where it came alone, `[V]`."""

    def add_up(redraw):
        first, second = torch.zeros(len(groups), CODES).double(), torch.zeros(CODES, len(groups)).double()
        alone = torch.zeros(CODES).double()
        for chance, tokens, inside, _ in rounds(redraw):
            first[inside[0], tokens[0]] += chance
            if len(tokens) > 1:
                second[tokens[0], inside[1]] += chance
            else:
                alone[tokens[0]] += chance
        return first, second, alone

    return add_up


def masses(groups, laws):
    return torch.stack([groups.masses(law) for law in laws])


def assert_same(law, expected):
    torch.testing.assert_close(law, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("redraw", [False, True])
def test_every_group_has_the_targets_law_given_the_text_so_far(redraw, world, groups, emitted):
    first, second, alone = emitted(redraw)
    target = masses(groups, world.q2)
    assert_same(first.sum(1), groups.masses(world.q))
    # A first token that came alone is followed by the first token of a round.
    assert_same(second + alone[:, None] * target, first.sum(0)[:, None] * target)


@ALIKE
@pytest.mark.parametrize("redraw", [False, True])
def test_a_redraw_after_full_acceptances_alone_gives_the_last_drafted_position_the_targets_law(redraw, world, groups, rounds):
    second = torch.zeros(CODES, CODES).double()
    for chance, tokens, *_ in rounds(redraw):
        if len(tokens) > 1:
            second[tokens[0], tokens[1]] += chance
    difference = (second / second.sum(1, keepdim=True) - world.q2).abs().max()
    exact = redraw or len(groups.members) == CODES
    assert (difference < 1e-6) if exact else (difference > 0.01)


@ALIKE
def test_one_draft_a_round_with_redraw_has_exactly_the_targets_law(world, groups, rounds):
    """And without the re-draw it has not, unless every group is one token."""

    def first_token(redraw):
        law = torch.zeros(CODES).double()
        for chance, tokens, *_ in rounds(redraw, lookahead=1):
            law[tokens[0]] += chance
        return law

    assert_same(first_token(redraw=True), world.q)
    assert {len(tokens) for _, tokens, *_ in rounds(True, lookahead=1)} == {1}
    assert (float((first_token(redraw=False) - world.q).abs().max()) > 0.01) == (len(groups.members) > CODES)
