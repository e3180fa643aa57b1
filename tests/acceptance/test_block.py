"""Block verification by enumeration of texts over several rounds: every draft, label and turn of every coin, exactly.

The rules are black boxes but for the weights that they draw a replacement by, so that sums of chances are good to 1e-12.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from pcg.acceptance.block import block, coarse_block, prefix_shares, stand_ratios
from pcg.acceptance.coarse_grained import coarse
from pcg.acceptance.rejection import exact
from pcg.acceptance.sampler import as_array, draw
from pcg.acceptance.verdict import Coins, Test, Verdict, all_accepted
from pcg.groups.groups import Groups

ALMOST_ONE = 1 - 2**-53
CODES, LENGTH = 3, 3
DRAWING = (
    "pcg.acceptance.block",
    "pcg.acceptance.coarse_grained",
    "pcg.acceptance.rejection",
    "pcg.acceptance.verdict",
    __name__,
)
LOOKAHEADS = pytest.mark.parametrize("lookahead", [1, 2, 3])


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


@pytest.fixture(scope="module")
def world():
    return World(seed=5)


@pytest.fixture(scope="module")
def groups():
    """Each code belongs to more than one group."""
    return Groups.from_sets(0.4, torch.tensor([0, 2, 5, 7]), torch.tensor([0, 1, 0, 1, 2, 1, 2]))


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

    def __init__(self, rule, world, lookahead, groups=None, stops=lambda p: False, bonus=None):
        self.rule, self.world, self.lookahead, self.stops = rule, world, lookahead, stops
        self.groups = groups or Groups.singletons(world.codes)
        self.bonus = bonus or (lambda text: world.behind(text)[1])
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
        accept, found = [0.0] * standing + [ALMOST_ONE] * (len(drafted) - standing), []
        for places in product(range(len(self.groups)), range(self.world.codes if self.over_groups else 1)):
            chooser = Chooser()
            with pytest.MonkeyPatch.context() as patch:
                for module in DRAWING:
                    patch.setattr(f"{module}.draw", chooser)
                verdict = self.play(text, drafted, labels, accept, places)
            if chooser.chance:
                found.append((chooser.chance, verdict.next_token, verdict.next_group))
        return found

    def rounds(self, text):
        """(chance, tokens, their groups, how many drafts stand) of every round behind `text`; the bonus has no group yet."""
        for drafted, chance in self.world.drafts(text, self.lookahead, self.stops):
            for labels in product(*map(self.label_coins, drafted)):
                share = chance * np.prod([1 / float(self.groups.count[t]) for t in drafted])
                yield from self.standing(text, drafted, labels, share)

    def standing(self, text, drafted, labels, chance):
        known = self.known.setdefault(text, {})
        tests = self.play(text, drafted, labels, [0.0] * len(drafted)).tests
        tested = tuple(test.group if test.group >= 0 else test.token for test in tests)
        for i, test in enumerate(tests):
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
        for token, share in enumerate(self.bonus((*text, *drafted))):
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

    def furthest(self, wanted):
        """The largest difference of P(next group | text) from what `wanted(text)` says, over all texts."""
        tables = self.behind_texts()
        assert len(tables) == sum(self.world.codes**n for n in range(LENGTH))
        return max(np.abs(t.sum(1) / t.sum() - wanted(text)).max() for text, t in tables.items())


def target_of(world):
    return lambda text: world.behind(text)[1]


def coarse_target_of(world, groups):
    return lambda text: groups.masses(world.behind(text)[1]).numpy()


def within_by(groups, drawn_by, naive=False):
    """Block verification over groups; the token that replaces a rejected one follows `drawn_by(p, q)` within its group. naive:
    the group comes from the residual of token verification, a mistake that was shipped elsewhere."""

    def rule(drafted, p, q, coins):
        tokens, p, q = drafted.tolist(), as_array(p), as_array(q)
        labels = [groups.label(t, c) for t, c in zip(tokens, coins.group.tolist(), strict=True)]
        shares = prefix_shares([(groups.mass(p[i], k), groups.mass(q[i], k)) for i, k in enumerate(labels)])

        def excess(i, share):
            return groups.masses(share * q[i] - p[i]).clamp(min=0)

        ratios = stand_ratios(shares, lambda i: float(excess(i, shares[i]).sum()))

        tests = []
        for i, coin in enumerate(coins.accept[: len(tokens)].tolist()):
            tests.append(Test(tokens[i], 0.0, 0.0, 0.0, 0.0, ratios[i], coin, coin < ratios[i], labels[i]))
            if not tests[-1].accepted:
                group = draw(excess(i, 1.0 if naive else shares[i]), float(coins.residual[0]))
                members = groups.members_of(group).numpy()
                inside = drawn_by(p[i], q[i])[members] * groups.weights(group).numpy()
                token = int(members[draw(inside, float(coins.residual[1]))])
                return Verdict(i, token, "resampled", tuple(tests), next_group=group)
        return all_accepted(tests, q, coins)

    return rule


def mistaken(groups):
    return within_by(groups, lambda p, q: q, naive=True)


@LOOKAHEADS
def test_the_text_has_the_targets_probabilities_over_several_rounds(world, lookahead):
    assert Enumeration(block, world, lookahead).furthest(target_of(world)) < 1e-12


def test_so_it_has_with_four_codes():
    world = World(seed=2, codes=4)
    assert Enumeration(block, world, 2).furthest(target_of(world)) < 1e-12


@pytest.mark.parametrize("over_groups", [False, True])
def test_drafting_may_stop_where_the_draft_is_unsure(world, groups, over_groups):
    def stops(p):
        return p.max() < 0.6

    lengths = {len(drafted) for drafted, _ in world.drafts((), 3, stops)}
    assert len(lengths) > 1
    rule, wanted = (coarse_block(groups), coarse_target_of(world, groups)) if over_groups else (block, target_of(world))
    assert Enumeration(rule, world, 3, groups if over_groups else None, stops).furthest(wanted) < 1e-12


@pytest.mark.parametrize("rule", [exact, block])
def test_numbers_that_follow_from_the_past_leave_the_targets_probabilities(rule):
    """The enumeration of several rounds, where each drafts by what the text before it was: any function of the past."""

    class Changing(World):
        def drafts(self, text, lookahead, stops):
            return super().drafts(text, 1 + (sum(text) + len(text)) % 3, stops)

    world = Changing(seed=4)
    assert {len(next(world.drafts((x,), 3, lambda p: False))[0]) for x in range(CODES)} == {1, 2, 3}
    assert Enumeration(rule, world, 3).furthest(target_of(world)) < 1e-12


@pytest.mark.parametrize("lookahead", [2, 3])
def test_the_enumeration_refuses_the_residual_of_token_verification(world, lookahead):
    alone = Groups.singletons(CODES)
    assert Enumeration(mistaken(alone), world, lookahead, alone).furthest(target_of(world)) > 0.004


@LOOKAHEADS
def test_over_groups_every_group_has_the_targets_probability_given_the_text(world, groups, lookahead):
    assert Enumeration(coarse_block(groups), world, lookahead, groups).furthest(coarse_target_of(world, groups)) < 1e-12


@pytest.mark.slow
def test_over_groups_the_enumeration_refuses_pcgs_own_residual(world, groups):
    assert Enumeration(mistaken(groups), world, 3, groups).furthest(coarse_target_of(world, groups)) > 0.004


def test_who_draws_within_a_replaced_group_does_not_matter_to_the_groups(world, groups):
    for drawn_by in (lambda p, q: q, lambda p, q: p, lambda p, q: np.ones(CODES)):
        found = Enumeration(within_by(groups, drawn_by), world, 2, groups)
        assert found.furthest(coarse_target_of(world, groups)) < 1e-12


def test_the_hybrid_of_both_takes_tokens_from_the_draft_within_every_group_the_bonus_included(world, groups):
    def hybrid(text):
        """Q_c(K) p(x | K), summed over groups."""
        p, q = world.behind(text)
        found = np.zeros(CODES)
        for k in range(len(groups)):
            members = groups.members_of(k).numpy()
            inside = p[members] * groups.weights(k).numpy()
            found[members] += groups.mass(q, k) * inside / inside.sum()
        return found

    def furthest(drawn_by, bonus=None):
        tables = Enumeration(within_by(groups, drawn_by), world, 2, groups, bonus=bonus).behind_texts()
        return max(np.abs(t.sum(0) / t.sum() - hybrid(text)).max() for text, t in tables.items())

    assert furthest(lambda p, q: p, hybrid) < 1e-12
    assert furthest(lambda p, q: p) > 0.005
    assert furthest(lambda p, q: q, hybrid) > 0.005


@pytest.mark.parametrize("seed", range(4))
def test_never_fewer_tokens_than_token_verification(groups, seed):
    world = World(seed)
    for rule, other, over in ((block, exact, None), (coarse_block(groups), coarse(groups), groups)):
        gains = [
            Enumeration(rule, world, n, over).accepted() - Enumeration(other, world, n, over).accepted() for n in (1, 2, 3)
        ]
        assert abs(gains[0]) < 1e-12
        assert min(gains[1:]) > -1e-12
        assert gains[2] > 1e-4


def test_one_drafted_token_is_judged_as_in_token_verification(random_laws, play, groups):
    p, q = random_laws(8, 1, seed=4)
    assert play(block, p, q, 300) == play(exact, p, q, 300)
    eight = Groups.singletons(8)
    assert play(coarse_block(eight), p, q, 300) == play(coarse(eight), p, q, 300)


@pytest.mark.parametrize("residual", ["dense", "thinning"])
def test_a_round_tells_what_was_tested(random_laws, play, residual):
    p, q = random_laws(8, 4, seed=1)
    sets = [[0, 1], [0, 1, 2], [1, 2], [3, 4], [3, 4], [5], [6], [7]]
    starts = torch.tensor([0, *np.cumsum([len(s) for s in sets]).tolist()])
    for rule in (block, coarse_block(Groups.from_sets(0.4, starts, torch.tensor([t for s in sets for t in s])), residual)):
        verdicts = play(rule, p, q, 300)
        assert {v.accepted for v in verdicts} == {0, 1, 2, 3, 4}
        for verdict in verdicts:
            flags = [test.accepted for test in verdict.tests]
            assert flags == [True] * verdict.accepted + [False] * (verdict.next_kind == "resampled")
            assert all(test.accepted == (test.coin < test.ratio) for test in verdict.tests)
            assert q[verdict.accepted, verdict.next_token] > 0


def test_singleton_groups_are_block_verification_of_tokens_coin_for_coin(random_laws, play):
    p, q = random_laws(12, 4, seed=7)
    alone = [(v.accepted, v.next_token, v.next_kind) for v in play(block, p, q, 300)]
    assert [(v.accepted, v.next_token, v.next_kind) for v in play(coarse_block(Groups.singletons(12)), p, q, 300)] == alone


def test_nothing_drafted_gives_one_token_of_the_target(laws, coins):
    q = laws[1][1:2]
    for rule in (block, coarse_block(Groups.singletons(8))):
        verdict = rule(torch.empty(0, dtype=torch.int64), torch.empty(0, 8), q, coins(lookahead=0, bonus=0.2))
        assert (verdict.accepted, verdict.next_token, verdict.tests) == (0, draw(q[0], 0.2), ())


def test_extremes_are_harmless(coins):
    none, half = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    tiny = torch.tensor([[5e-324, 1.0]], dtype=torch.float64)
    for rule in (block, coarse_block(Groups.singletons(2))):
        outside = rule(torch.tensor([0, 1]), torch.cat([none, half]), torch.cat([none, half, half]), coins(accept=[0.0, 0.0]))
        assert (outside.accepted, outside.next_token) == (0, 1)
        sure = rule(
            torch.tensor([0, 1]), torch.cat([tiny, half]), torch.cat([half, half, half]), coins(accept=[ALMOST_ONE] * 2)
        )
        assert sure.accepted == 2
        equal = rule(torch.tensor([1, 0]), torch.cat([half, half]), torch.cat([half] * 3), coins(accept=[ALMOST_ONE] * 2))
        assert (equal.accepted, equal.next_kind) == (2, "bonus")


def second_tokens(rule, world, lookahead, draws, seed=0):
    """How often each pair of first tokens is said, `[V, V]`, by rounds with coins of their own."""
    generator, found = torch.Generator().manual_seed(seed), np.zeros((world.codes,) * 2)
    for _ in range(draws):
        text = ()
        while len(text) < 2:
            coins, drafted = Coins.draw(lookahead, generator), ()
            for coin in coins.draft.tolist():
                drafted += (draw(world.behind((*text, *drafted))[0], coin),)
            verdict = rule(torch.tensor(drafted), *world.round(text, drafted), coins)
            text += (*drafted[: verdict.accepted], verdict.next_token)
        found[text[:2]] += 1
    return found / draws


@pytest.mark.slow
def test_many_draws_agree():
    """Of nine outcomes a sample strays by about 0.4 sqrt(9 / draws); the mistaken residual shows."""
    world, draws = World(seed=10), 200_000
    bound = 1.6 * 0.4 * (9 / draws) ** 0.5
    first = world.behind(())[1]
    wanted = first[:, None] * np.array([world.behind((x,))[1] for x in range(CODES)])
    assert np.abs(second_tokens(block, world, 3, draws) - wanted).sum() / 2 < bound
    assert np.abs(second_tokens(mistaken(Groups.singletons(CODES)), world, 3, draws // 4) - wanted).sum() / 2 > bound
