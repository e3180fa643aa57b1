"""PCG with a re-draw, by enumeration.

Tokens are exact with one drafted token a round. With two, a re-draw after full acceptances keeps the probabilities of groups,
and makes those of the round's last drafted position exact.
"""

import numpy as np
import pytest

from pcg.acceptance.coarse_grained import coarse
from pcg.groups.groups import Groups
from tests.acceptance.enumeration import CODES, Enumeration, World, coarse_target_of, overlapping, target_of

ALIKE = pytest.mark.parametrize("groups", [overlapping(), Groups.singletons(CODES)], ids=["overlapping", "singletons"])
WORLD = World(seed=3)


def enumeration(groups, redraw, lookahead):
    return Enumeration(coarse(groups, redraw=redraw), WORLD, lookahead, groups)


@pytest.mark.parametrize("redraw", [False, True])
def test_every_group_has_the_targets_probability_given_the_text_so_far(redraw):
    groups = overlapping()
    assert enumeration(groups, redraw, 2).furthest(coarse_target_of(WORLD, groups)) < 1e-12


@ALIKE
@pytest.mark.parametrize("redraw", [False, True])
def test_a_redraw_after_full_acceptances_alone_gives_the_last_drafted_position_the_targets_probabilities(redraw, groups):
    second = np.zeros((CODES, CODES))
    for chance, tokens, *_ in enumeration(groups, redraw, 2).rounds(()):
        if len(tokens) > 1:
            second[tokens[:2]] += chance
    wanted = [WORLD.behind((x,))[1] for x in range(CODES)]
    difference = np.abs(second / second.sum(1, keepdims=True) - wanted).max()
    exact = redraw or len(groups) == len(groups.members)
    assert (difference < 1e-12) if exact else (difference > 0.01)


@ALIKE
def test_one_draft_a_round_with_redraw_has_exactly_the_targets_probabilities(groups):
    """And without the re-draw it has not, unless every group is one token."""
    again, plain = (enumeration(groups, redraw, 1) for redraw in (True, False))
    assert again.furthest(target_of(WORLD), of_tokens=True) < 1e-12
    assert {len(tokens) for _, tokens, *_ in again.rounds(())} == {1}
    assert (plain.furthest(target_of(WORLD), of_tokens=True) > 0.01) == (len(groups) < len(groups.members))
