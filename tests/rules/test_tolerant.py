"""SSD between its two ends: exact speculative decoding at beta = 0, everything accepted from beta = 1."""

import pytest
import torch

from pcg.errors import InputError
from pcg.rules import exact, tolerant


def test_without_tolerance_it_is_exact_coin_for_coin(random_laws, play):
    p, q = random_laws(50, 3, seed=3)
    expected = play(exact, p, q, rounds=300)
    assert play(tolerant(0.0), p, q, rounds=300) == expected
    assert {v.next_kind for v in expected} == {"resampled", "bonus"}


@pytest.mark.parametrize("beta", [1.0, 1.5])
def test_full_tolerance_accepts_everything(beta, laws, coins):
    p, _ = laws
    q = torch.zeros(3, 8, dtype=torch.float64)
    q[:, 3] = 1
    verdict = tolerant(beta)(torch.tensor([0, 1]), p, q, coins(accept=[1 - 2**-53] * 2))
    assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (2, "bonus", 3)


@pytest.mark.parametrize(("coin", "accepted"), [(0.449, 1), (0.451, 0)])
def test_the_tolerance_is_added_to_the_ratio(coin, accepted, coins):
    p = torch.tensor([[0.8, 0.2]], dtype=torch.float64)
    q = torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    verdict = tolerant(0.2)(torch.tensor([0]), p, q, coins(lookahead=1, accept=[coin]))
    assert (verdict.accepted, verdict.tests[0].ratio) == (accepted, pytest.approx(0.45))


def test_a_rejected_token_is_replaced_from_the_residual(laws, play):
    p, q = laws
    replaced = [v.next_token for v in play(tolerant(0.3), p, q, rounds=400) if v.next_kind == "resampled"]
    assert set(replaced) == set((q[1] > p[1]).nonzero().flatten().tolist())


@pytest.mark.parametrize("beta", [-0.1, float("nan")])
def test_a_negative_tolerance_is_refused(beta):
    with pytest.raises(InputError, match="beta"):
        tolerant(beta)
