"""What holds for every rule, whatever the groups, the laws, the coins and the number of drafted tokens."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pcg.groups.groups import Groups
from pcg.rules import THINNING_TRIALS, Coins, block, coarse, exact, membership, tolerant, typical
from pcg.sampling import draw

ALMOST_ONE = 1 - 2**-53
steady = settings(derandomize=True, deadline=None, max_examples=60, database=None)
RULES = {
    "exact": lambda groups: exact,
    "tolerant": lambda groups: tolerant(0.3),
    "membership": lambda groups: membership(2),
    "typical": lambda groups: typical(0.2, 0.5),
    "dense": lambda groups: coarse(groups),
    "thinning": lambda groups: coarse(groups, "thinning"),
    "block": lambda groups: block,
}
WITHOUT_GROUPS = ("exact", "tolerant", "membership", "typical", "block")
EVERY = pytest.mark.parametrize("name", RULES)


@st.composite
def the_groups(draw_, vocabulary):
    """Each token's neighbours at random, itself among them; or all tokens in one group; or each alone."""
    shape = draw_(st.sampled_from(["random", "full", "alone"]))
    everything = set(range(vocabulary))
    rows = [{"full": everything, "alone": {t}}.get(shape) for t in range(vocabulary)]
    rows = [sorted(row or draw_(st.sets(st.sampled_from(range(vocabulary)))) | {t}) for t, row in enumerate(rows)]
    starts = torch.tensor([0] + [len(row) for row in rows]).cumsum(0)
    return Groups.from_sets(0.4, starts, torch.cat([torch.tensor(row) for row in rows]))


@st.composite
def the_laws(draw_, rows, vocabulary):
    """Whole-numbered weights, so that many tokens have no probability and many ratios are exactly one."""
    weights = draw_(arrays(np.int64, (rows, vocabulary), elements=st.integers(0, 4)))
    weights[weights.sum(1) == 0, 0] = 1
    return torch.from_numpy(weights / weights.sum(1, keepdims=True)).to(draw_(st.sampled_from([torch.float32, torch.float64])))


@st.composite
def the_coins(draw_, lookahead):
    """Coins by a seed, or by one that has most of them lie at the ends of their range."""
    coins = Coins.draw(lookahead, torch.Generator().manual_seed(draw_(st.integers(0, 10_000))))
    if draw_(st.booleans()):
        return coins

    def sharpen(values):
        return np.where(values < 0.3, 0.0, np.where(values > 0.7, ALMOST_ONE, values))

    return Coins(**{f.name: sharpen(getattr(coins, f.name)) for f in fields(Coins)})


@st.composite
def cases(draw_):
    """(groups, drafted, p, q, coins) with nothing to four tokens drafted from p, as the decoding loop drafts them."""
    vocabulary, lookahead = draw_(st.integers(1, 7)), draw_(st.integers(0, 4))
    p, q = draw_(the_laws(2 * lookahead + 1, vocabulary)).split([lookahead, lookahead + 1])
    coins = draw_(the_coins(lookahead))
    drafted = torch.tensor([draw(law, c) for law, c in zip(p, coins.draft.tolist(), strict=True)], dtype=torch.int64)
    return draw_(the_groups(vocabulary)), drafted, p, q, coins


@EVERY
def test_rounds_end_at_every_place(name, groups, random_laws, play):
    verdicts = play(RULES[name](groups), *random_laws(8, 4, seed=6), rounds=300)
    assert {v.accepted for v in verdicts} == {0, 1, 2, 3, 4}
    assert {v.next_kind for v in verdicts} == {"resampled", "bonus"}
    assert all((v.next_group >= 0) == (name not in WITHOUT_GROUPS and v.next_kind != "bonus") for v in verdicts)
    assert all((v.next_group_size, v.trials) == (1, 0) for v in verdicts if name in WITHOUT_GROUPS)


@EVERY
def test_nothing_drafted_gives_one_token_of_the_target(name, groups, laws, coins):
    q = laws[1][1:2]
    verdict = RULES[name](groups)(torch.empty(0, dtype=torch.int64), torch.empty(0, 8), q, coins(lookahead=0, bonus=0.2))
    assert (verdict.accepted, verdict.next_kind, verdict.next_token, verdict.tests) == (0, "bonus", draw(q[0], 0.2), ())


@pytest.mark.parametrize("name", ["exact", "dense", "thinning", "block"])
@pytest.mark.parametrize("tiny", [1e-300, 5e-324])
def test_a_tiny_draft_probability_is_harmless(name, tiny, coins):
    p = torch.tensor([[tiny, 1.0]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    sure = RULES[name](Groups.singletons(2))(torch.tensor([0]), p, q, coins(lookahead=1, accept=[ALMOST_ONE]))
    assert (sure.accepted, sure.tests[0].ratio) == (1, 1.0)
    hopeless = RULES[name](Groups.singletons(2))(
        torch.tensor([0]), q[:1], torch.cat([p, q[:1]]), coins(lookahead=1, accept=[1e-200], residual=[0.5, 0.5])
    )
    assert (hopeless.accepted, hopeless.next_token) == (0, 1)


@EVERY
@steady
@given(case=cases())
def test_a_verdict_is_an_accepted_prefix_and_a_possible_token(name, case):
    groups, drafted, p, q, coins = case
    rule = RULES[name](groups)
    verdict = rule(drafted, p, q, coins)
    passed = sum(test.accepted for test in verdict.tests)
    rejected = passed < len(drafted)
    assert [test.token for test in verdict.tests] == drafted[: len(verdict.tests)].tolist()
    assert [test.accepted for test in verdict.tests] == [True] * passed + [False] * rejected
    assert all(test.accepted == (test.coin < test.ratio) and 0 <= test.ratio <= 1 for test in verdict.tests)
    assert verdict.accepted == passed
    assert verdict.next_kind == ("resampled" if rejected else "bonus")
    assert q[verdict.accepted, verdict.next_token] > 0
    assert rejected or verdict.next_token == draw(q[-1], coins.bonus)
    # Under all but PCG the mass is that of the token: nothing is said that the target would not say.
    assert all(test.mass_q > 0 for test in verdict.tests[:passed]) or name == "tolerant"
    assert rule(drafted, p, q, coins) == verdict


@pytest.mark.parametrize("name", [name for name in RULES if name not in WITHOUT_GROUPS])
@steady
@given(case=cases())
def test_groups_hold_their_tokens_and_their_masses(name, case):
    groups, drafted, p, q, coins = case
    verdict = RULES[name](groups)(drafted, p, q, coins)
    for i, test in enumerate(verdict.tests):
        assert test.token in groups.members_of(test.group).tolist()
        assert test.group_size == groups.size(test.group)
        masses = [float(groups.masses(law[i])[test.group]) for law in (p, q)]
        assert [test.mass_p, test.mass_q] == pytest.approx(masses)
    if verdict.next_kind != "bonus":
        assert verdict.next_token in groups.members_of(verdict.next_group).tolist()
        assert verdict.next_group_size == groups.size(verdict.next_group)
    assert 0 <= verdict.trials <= THINNING_TRIALS


@steady
@given(case=cases())
def test_singleton_groups_are_exact_decoding_coin_for_coin(case):
    _, drafted, p, q, coins = case
    verdict = coarse(Groups.singletons(q.shape[1]))(drafted, p, q, coins)
    reference = exact(drafted, p, q, coins)
    assert [(t.ratio, t.coin, t.accepted) for t in verdict.tests] == [(t.ratio, t.coin, t.accepted) for t in reference.tests]
    assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (
        reference.accepted,
        reference.next_kind,
        reference.next_token,
    )


@steady
@given(case=cases())
def test_one_group_of_all_tokens_accepts_every_draft(case):
    _, drafted, p, q, coins = case
    vocabulary = q.shape[1]
    everything = Groups.from_sets(0.0, torch.arange(vocabulary + 1) * vocabulary, torch.arange(vocabulary).repeat(vocabulary))
    # All of the mass, in two orders of adding it up: a ratio can miss one by rounding, and a coin can hit that.
    coins = replace(coins, accept=coins.accept.clip(max=1 - 1e-6))
    verdict = coarse(everything)(drafted, p, q, coins)
    assert (verdict.accepted, verdict.next_kind) == (len(drafted), "bonus")


@steady
@given(
    size=st.sampled_from([1, 2, 255, 256, 257, 700]),
    seed=st.integers(0, 1000),
    zeros=st.sampled_from([0.0, 0.5, 0.99]),
    coin=st.one_of(st.sampled_from([0.0, ALMOST_ONE]), st.floats(0, 1, exclude_max=True)),
    scale=st.sampled_from([1.0, 1e-300, 1e300]),
)
def test_a_draw_inverts_the_running_sum_and_never_takes_a_zero(size, seed, zeros, coin, scale):
    """Across the blocks that a draw works in, for any sum of the weights."""
    generator = np.random.default_rng(seed)
    weights = generator.random(size) * (generator.random(size) >= zeros)
    weights[generator.integers(size)] = 0.5
    token = draw(torch.from_numpy(weights * scale), coin)
    assert weights[token] > 0
    end = weights[: token + 1].sum()
    target = coin * weights.sum()
    assert end - weights[token] - 1e-9 <= target <= end + 1e-9
    assert draw(torch.from_numpy(weights * scale), coin) == token
