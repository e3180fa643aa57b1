"""Intervals: seeded, around their value, narrower with more utterances, honest at the ends."""

import numpy as np
import pytest

from pcg.metrics.estimate import bootstrap, share


def test_the_bootstrap_is_seeded_and_holds_its_value() -> None:
    errors, lengths = [0, 3, 1, 0, 2, 5], [8, 9, 7, 10, 6, 9]
    first = bootstrap(errors, lengths)
    assert first == bootstrap(errors, lengths)
    assert first.value == pytest.approx(11 / 49)
    assert 0 <= first.low < first.value < first.high <= 1


def test_a_mean_has_the_interval_of_the_normal_law() -> None:
    values = np.random.default_rng(0).normal(2.0, 1.0, 400)
    estimate = bootstrap(list(values))
    reach = 1.96 * values.std() / np.sqrt(len(values))
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.high - estimate.low) / 2 == pytest.approx(reach, rel=0.1)
    assert bootstrap([1, 1, 1], [4, 4, 4]) == bootstrap([2], [8])


def test_a_share_of_none_is_not_certain() -> None:
    none = share(0, 200)
    assert none.value == 0.0
    assert none.low == 0.0
    assert none.high == pytest.approx(0.0188, abs=0.0005)
    every, half = share(200, 200), share(100, 200)
    assert (every.low, every.high) == (pytest.approx(1 - none.high), 1.0)
    assert (half.low, half.high) == (pytest.approx(0.431, abs=0.001), pytest.approx(0.569, abs=0.001))


def test_no_utterances_have_no_estimate() -> None:
    with pytest.raises(ValueError, match="at least one"):
        bootstrap([])
    with pytest.raises(ValueError, match="at least one"):
        share(0, 0)
