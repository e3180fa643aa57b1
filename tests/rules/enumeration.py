"""What a rule says, by enumeration of texts over several rounds: every draft, label and turn of every coin, exactly.

The rules are black boxes but for the weights that they draw a replacement by, so that sums of chances are good to 1e-12.
"""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from pcg.groups.groups import Groups
from pcg.rules import Coins, block
from pcg.sampling import as_array, draw

ALMOST_ONE = 1 - 2**-53
CODES, LENGTH = 3, 3
DRAWING = ("pcg.rules", __name__)


def overlapping():
    """Each code belongs to more than one group."""
    return Groups.from_sets(0.4, torch.tensor([0, 2, 5, 7]), torch.tensor([0, 1, 0, 1, 2, 1, 2]))


class World:
    """Probabilities of draft and target behind every text, float64 and unlike each other."""

    def __init__(self, seed=0, codes=CODES):
        self.seed, self.codes = seed, codes
        self.behind, self.round = cache(self.behind), cache(self.round)

    def behind(self, text):
        number = int("1" + "".join(map(str, text)))
        logits = np.random.default_rng([self.seed, number]).normal(size=(2, self.codes)) * 1.5
        weights = np.exp(logits)
        return weights / weights.sum(1, keepdims=True)

    def round(self, text, drafted):
        """p `[L, V]` and q `[L + 1, V]` as a rule gets them."""
        both = [self.behind((*text, *drafted[:i])) for i in range(len(drafted) + 1)]
        p = np.array([p for p, _ in both[:-1]]).reshape(-1, self.codes)
        return torch.from_numpy(p), torch.tensor(np.array([q for _, q in both]))

    def drafts(self, text, lookahead, stops=lambda p: False):
        """Every draft that may be drawn behind `text`, and its chance; `stops(p)` may end it before a token is drawn from p."""

        def grow(drafted, chance):
            p = self.behind((*text, *drafted))[0]
            if len(drafted) == lookahead or stops(p):
                yield drafted, chance
                return
            for token in range(self.codes):
                yield from grow((*drafted, token), chance * p[token])

        return grow((), 1.0)


class Chooser:
    """In place of `draw`: the coin is the place to choose, and the chance that a real coin chooses it is noted."""

    def __init__(self):
        self.chance = 1.0

    def __call__(self, weights, coin):
        place, weights = int(coin), as_array(weights)
        self.chance *= float(weights[place] / weights.sum()) if place < len(weights) else 0.0
        return place if place < len(weights) else 0


class Enumeration:
    """All texts of `LENGTH` tokens that a rule says, round by round."""

    def __init__(self, rule, world, lookahead, groups=None, stops=lambda p: False):
        self.rule, self.world, self.lookahead, self.stops = rule, world, lookahead, stops
        self.groups = groups or Groups.singletons(world.codes)
        self.known = {}
        self.over_groups = groups is not None

    def play(self, text, drafted, labels, accept, residual=(0.5, 0.5)):
        count = len(drafted)
        coins = Coins(
            torch.full((count,), 0.5),
            torch.tensor(accept, dtype=torch.float64),
            torch.tensor(labels, dtype=torch.float64),
            torch.tensor(residual, dtype=torch.float64),
            torch.empty(0, 3, dtype=torch.float64),
            0.5,
        )
        return self.rule(torch.tensor(drafted, dtype=torch.int64), *self.world.round(text, drafted), coins)

    def label_coins(self, token):
        count = int(self.groups.count[token])
        return [(j + 0.5) / count for j in range(count)]

    def replacements(self, text, drafted, labels, standing):
        """(chance, token, group) of what follows the first `standing` of the drafted tokens, which stand alone."""
        accept, found = [0.0] * standing + [ALMOST_ONE] * (len(drafted) - standing), {}
        for places in product(range(len(self.groups)), range(self.world.codes if self.over_groups else 1)):
            chooser = Chooser()
            with pytest.MonkeyPatch.context() as patch:
                for module in DRAWING:
                    patch.setattr(f"{module}.draw", chooser)
                verdict = self.play(text, drafted, labels, accept, places)
            if chooser.chance:  # a coin that the rule does not look at finds the same again
                found[verdict.next_token, verdict.next_group] = chooser.chance
        return [(chance, *what) for what, chance in found.items()]

    def rounds(self, text):
        """(chance, tokens, their groups, how many drafts stand) of every round behind `text`; the bonus has no group yet."""
        for drafted, chance in self.world.drafts(text, self.lookahead, self.stops):
            for labels in product(*map(self.label_coins, drafted)):
                share = chance * np.prod([1 / float(self.groups.count[t]) for t in drafted])
                yield from self.standing(text, drafted, labels, share)

    def standing(self, text, drafted, labels, chance):
        known = self.known.setdefault(text, {})
        unopposed = self.play(text, drafted, labels, [0.0] * len(drafted))
        tested = tuple(test.group if test.group >= 0 else test.token for test in unopposed.tests)
        for i, test in enumerate(unopposed.tests):
            if test.ratio < 1:
                accept = [0.0] * i + [ALMOST_ONE] * (len(drafted) - i)
                assert self.play(text, drafted, labels, [*accept[:i], test.ratio, *accept[i + 1 :]]).accepted == i
                before = drafted[:i], labels[:i]
                if before not in known:  # it depends on nothing behind, as the furthest of all texts would show
                    known[before] = self.replacements(text, drafted, labels, i)
                for share, token, group in known[before]:
                    label = group if group >= 0 else token
                    yield chance * (1 - test.ratio) * share, (*drafted[:i], token), (*tested[:i], label), i
            chance *= test.ratio
            if not chance:
                return
        for token, share in enumerate(self.world.behind((*text, *drafted))[1]):
            for label in self.label_coins(token):
                held = self.groups.label(token, label)
                yield chance * share / float(self.groups.count[token]), (*drafted, token), (*tested, held), len(drafted)

    def behind_texts(self):
        """For every text of fewer than `LENGTH` tokens: P(text, next group, next token) `[M, V]`."""
        found = {}
        starts = {(): 1.0}
        for length in range(LENGTH):
            for text in [text for text in starts if len(text) == length]:
                for chance, tokens, groups, _ in self.rounds(text):
                    for i in range(min(len(tokens), LENGTH - length)):
                        table = found.setdefault((*text, *tokens[:i]), np.zeros((len(self.groups), self.world.codes)))
                        table[groups[i], tokens[i]] += starts[text] * chance
                    if length + len(tokens) < LENGTH:
                        after = (*text, *tokens)
                        starts[after] = starts.get(after, 0.0) + starts[text] * chance
        return found

    def accepted(self):
        """Expected tokens that stand in the first round."""
        return sum(chance * standing for chance, _, _, standing in self.rounds(()))

    def furthest(self, wanted, of_tokens=False):
        """The largest difference of P(next group | text), or of_tokens P(next token | text), from `wanted(text)`, over all
        texts."""
        tables = self.behind_texts()
        assert len(tables) == sum(self.world.codes**n for n in range(LENGTH))
        return max(np.abs(t.sum(0 if of_tokens else 1) / t.sum() - wanted(text)).max() for text, t in tables.items())


def target_of(world):
    return lambda text: world.behind(text)[1]


def coarse_target_of(world, groups):
    return lambda text: groups.masses(world.behind(text)[1]).numpy()


def mistaken(drafted, p, q, coins):
    """Block verification whose replacement comes from the residual of token verification, a mistake that was shipped
    elsewhere."""
    verdict = block(drafted, p, q, coins)
    if verdict.next_kind == "bonus":
        return verdict
    at = verdict.accepted
    return replace(verdict, next_token=draw((q[at] - p[at]).clip(min=0), float(coins.residual[0])))
