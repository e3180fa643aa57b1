"""The number of drafts is chosen from costs and past rounds: near the best fixed one, and without a trace in what is said."""

import random
from collections import Counter

import pytest

from pcg.decode.sequence import Acceptances, choose_lookahead, linear_costs
from pcg.settings import Settings


def rounds(chances, counts, seed=0):
    """Simulated rounds: the tests of each, by the chance of each position; `counts(past)` says how many tokens are drafted."""
    rng, past = random.Random(seed), Acceptances()
    while True:
        count, passed = counts(past), []
        for chance in chances[:count]:
            passed.append(rng.random() < chance)
            if not passed[-1]:
                break
        past = past.after(passed)
        yield count, passed


@pytest.mark.parametrize("cost", [0.03, 0.08, 0.15, 0.3])
@pytest.mark.parametrize("chances", [[0.4] * 8, [0.6] * 8, [0.8] * 8, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]], ids=str)
def test_it_finds_the_best_fixed_number_within_one(cost, chances):
    costs = linear_costs(cost, 8)
    best = choose_lookahead(costs, chances)
    drafting = rounds(chances, lambda past: choose_lookahead(costs, past.expected(8)))
    chosen = Counter(next(drafting)[0] for _ in range(400))
    late = Counter(next(drafting)[0] for _ in range(600))
    assert abs(late.most_common(1)[0][0] - best) <= 1
    assert sum(chosen.values()) == 400

    def rate(counts):
        spent = tokens = 0.0
        for (count, passed), _ in zip(rounds(chances, counts, seed=1), range(4000), strict=False):
            spent, tokens = spent + costs[count - 1], tokens + 1 + sum(passed)
        return tokens / spent

    auto = rate(lambda past: choose_lookahead(costs, past.expected(8)))
    assert auto > 0.97 * rate(lambda past: best)
    assert auto > rate(lambda past: 1 if best > 4 else 8), "or the simulation could not tell numbers apart"


def test_the_choice_is_the_one_with_most_tokens_for_its_cost():
    assert choose_lookahead([1.1, 1.2, 1.3], [0.9, 0.9, 0.9]) == 3
    assert choose_lookahead([1.5, 2.0, 2.5], [0.5, 0.5, 0.5]) == 1
    assert choose_lookahead([1.0, 1.0, 9.0], [0.5, 0.5, 0.5]) == 2
    assert choose_lookahead([1.0, 1.0], [0.5, 0.0]) == 1


def test_positions_that_were_never_tested_lean_on_the_others():
    past = Acceptances()
    assert past.expected(3) == [0.5] * 3
    for _ in range(200):
        past = past.after([True, False])
    first, second, third = past.expected(3)
    assert first > 0.9 > third > 0.1 > second


def test_a_take_is_said_again_from_its_settings(synthesizer):
    settings = Settings("sd", lookahead=6, lookahead_cost=0.2, seed=3)
    take, again = (synthesizer.take("hello, is this one sentence?", settings, "one") for _ in range(2))
    lengths = [len(r.drafted) for r in take.rounds]
    assert take.tokens == again.tokens
    assert lengths == take.summary()["drafted_lengths"]
    assert len(set(lengths)) > 1
    assert max(lengths) <= 6


def test_block_verification_is_reached_by_settings(synthesizer):
    for method in ("sd", "pcg"):
        settings = Settings(method, theta=0.3, seed=1)
        token, whole = (synthesizer.take("hello", settings.with_(verification=v), "one") for v in ("token", "block"))
        assert token.tokens != whole.tokens
        assert synthesizer.take("hello", settings.with_(verification="block"), "one").tokens == whole.tokens
