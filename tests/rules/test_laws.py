"""The emitted laws by enumeration: the rule is a black box, asked with every drafted token and at every turn of every coin.

Position 1 is reached because the fixture laws agree at position 0; exchanging the two brings the disagreement to the front.
"""

from dataclasses import fields

import pytest
import torch

from pcg.groups.groups import Groups
from pcg.rules import coarse, exact, tolerant

ALMOST_ONE = 1 - 2**-53
EOS = 7
NONE = Groups.singletons(8)
POSITIONS = pytest.mark.parametrize("position", [0, 1])


class FirstGroups(Groups):
    """Labels a token with the first of its groups, although the masses share it equally among all."""

    def label(self, t, coin):
        return int(self.groups_of(t)[0])


@pytest.fixture
def world(laws, position):
    p, q = laws
    return (p, q) if position == 1 else (p[[1, 0]], q[[1, 0, 2]])


def shares(outcome):
    """Where the outcome of a coin changes: [0, 1) as pieces (outcome, a coin amid the piece, length), exact to 1e-9.

    The outcome must be a step function of the coin that takes no value on two separate pieces.
    """
    pieces, start, last = [], 0.0, outcome(ALMOST_ONE)
    while (here := outcome(start)) != last:
        low, high = start, ALMOST_ONE
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if outcome(middle) == here else (low, middle)
        pieces.append((here, (start + low) / 2, high - start))
        start = high
    return [*pieces, (last, (start + 1) / 2, 1 - start)]


class Enumeration:
    """Verdicts on one position of a world, and the laws `[groups, tokens]` that they add up to (`NONE`: sum over the rows)."""

    def __init__(self, rule, groups, world, position, coins):
        self.rule, self.groups, self.position = rule, groups, position
        (self.p, self.q), self.coins = world, coins

    def play(self, token, group=0.5, accept=ALMOST_ONE, **rest):
        drafted, labels, thresholds = torch.zeros(2, dtype=torch.int64), [0.5, 0.5], [0.0, 0.0]
        drafted[self.position], labels[self.position], thresholds[self.position] = token, group, accept
        return self.rule(drafted, self.p, self.q, self.coins(group=labels, accept=thresholds, **rest))

    def accepted(self):
        law = torch.zeros(len(self.groups), 8, dtype=torch.float64)
        for token, chance in enumerate(self.p[self.position].tolist()):
            labels = shares(lambda coin, t=token: self.play(t, coin).tests[self.position].group)
            for group, label, share in labels:
                answers = shares(lambda coin, t=token, g=label: self.play(t, g, coin).tests[self.position].accepted)
                law[group, token] += chance * share * sum(length for accepted, _, length in answers if accepted)
        return law

    def resampled(self):
        """What replaces a rejected token: first a group (or, without groups, a token), then a token in it."""
        law = torch.zeros(len(self.groups), 8, dtype=torch.float64)
        for _, outer, share in shares(lambda coin: self.chosen(residual=[coin, 0.5])):
            for token, inner, length in shares(lambda coin, o=outer: self.play(EOS, residual=[o, coin]).next_token):
                law[self.play(EOS, residual=[outer, inner]).next_group, token] += share * length
        return law

    def chosen(self, **coins):
        verdict = self.play(EOS, **coins)
        return verdict.next_group if verdict.next_group >= 0 else verdict.next_token

    def thinned(self):
        """The same by trials: what passes the first of them, which any later one repeats with coins of its own."""
        law, ends = torch.zeros(len(self.groups), 8, dtype=torch.float64), self.q[self.position].cumsum(0)
        for token, chance in enumerate(self.q[self.position].tolist()):
            for group, label, share in shares(lambda coin, t=token: self.groups.label(t, coin)):
                trial = [float(ends[token]) - chance / 2, label]
                answers = shares(lambda coin, t=trial: self.first_trial([*t, coin]))
                for (passed, *what), _, length in answers:
                    if passed:
                        assert what == [group, token]
                        law[group, token] += chance * share * length
        return law / law.sum()

    def first_trial(self, trial):
        verdict = self.play(EOS, thinning=[trial, [0.5] * 3])
        return (True, verdict.next_group, verdict.next_token) if verdict.trials == 1 else (False,)

    def emitted(self, replaced):
        accepted = self.accepted()
        return accepted + (1 - accepted.sum()) * replaced


@pytest.fixture
def enumerate_(world, position, coins):
    return lambda rule, groups=NONE: Enumeration(rule, groups, world, position, coins)


def assert_same(law, expected):
    torch.testing.assert_close(law, expected.double(), rtol=0, atol=1e-6)


@POSITIONS
def test_exact_emits_the_targets_law_and_a_tolerance_does_not(position, world, enumerate_):
    target = world[1][position]
    sd, ssd = (enumerate_(rule) for rule in (exact, tolerant(0.3)))
    assert_same(sd.emitted(sd.resampled()).sum(0), target)
    assert float((ssd.emitted(ssd.resampled()).sum(0) - target).abs().sum()) > 0.1


@POSITIONS
def test_pcg_emits_the_targets_law_over_groups_but_not_over_tokens(groups, position, world, enumerate_):
    target = world[1][position]
    pcg = enumerate_(coarse(groups), groups)
    law = pcg.emitted(pcg.resampled())
    assert_same(law.sum(1), groups.masses(target))
    assert float((law.sum(0) - target).abs().sum()) > 0.1


@POSITIONS
def test_both_residuals_are_one_law(groups, position, enumerate_):
    assert_same(enumerate_(coarse(groups, "thinning"), groups).thinned(), enumerate_(coarse(groups), groups).resampled())


@POSITIONS
def test_labels_and_masses_of_different_weights_do_not_add_up(position, world, groups, enumerate_):
    mixed = FirstGroups(*(getattr(groups, field.name) for field in fields(groups)))
    pcg, target = enumerate_(coarse(mixed), mixed), world[1][position]
    assert float((pcg.emitted(pcg.resampled()).sum(1) - mixed.masses(target)).abs().max()) > 0.001


@POSITIONS
def test_thinning_over_singletons_is_exact_decoding_in_law(position, world, enumerate_):
    pcg = enumerate_(coarse(NONE, "thinning"))
    assert_same(pcg.emitted(pcg.thinned()).sum(0), world[1][position])
    assert_same(pcg.thinned().sum(0), enumerate_(exact).resampled().sum(0))
