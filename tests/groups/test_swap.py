import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.swap import Swap, Swapped, swap
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take

THETA = 0.3
# Overlapping groups over six codes and the end of speech: G(1) is not G(0), and code 5 stands alone.
SETS = [[0, 1], [0, 1, 2, 3], [1, 2, 3], [1, 2, 3, 4], [3, 4], [5], [6]]
USABLE = torch.tensor([True, True, True, True, True, False])
BOUND = 0.001


@pytest.fixture(scope="module")
def groups() -> Groups:
    indptr = torch.tensor([0, *np.cumsum([len(s) for s in SETS])])
    return Groups.from_sets(THETA, indptr, torch.tensor([t for s in SETS for t in s]))


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take("The quick brown fox.", Settings("ar"), "one")


def done(tokens: list[int], groups: Groups, seed: int = 0, **fields: object) -> Swapped:
    return swap(tokens, groups, Swap(THETA, **fields), USABLE, torch.Generator().manual_seed(seed))


def test_every_candidate_and_nothing_else_becomes_another_member_of_its_own_group(groups: Groups) -> None:
    tokens = [0, 5, 1, 2, 5, 3, 4, 0, 1]
    for seed in range(50):
        found = done(tokens, groups, seed)
        assert found.positions == (0, 2, 3, 5, 6, 7, 8)
        assert [found.tokens[i] for i in (1, 4)] == [5, 5]
        assert all(found.tokens[i] in SETS[tokens[i]] and found.tokens[i] != tokens[i] for i in found.positions)
    assert found.group_sizes == (2, 1, 4, 3, 1, 4, 2, 2, 4)
    assert found.mean_group_size == pytest.approx(23 / 9)
    assert found.share == pytest.approx(7 / 9)


def counts(tokens: tuple[int, ...], pool: list[int]) -> np.ndarray:
    found = np.bincount(tokens, minlength=7)
    assert found.sum() == found[pool].sum()
    return found[pool]


def test_the_other_member_is_drawn_uniformly(groups: Groups) -> None:
    drawn = done([1] * 6000, groups, seed=3).tokens
    assert chisquare(counts(drawn, [0, 2, 3])).pvalue > BOUND
    # What the test must refuse: one member a tenth more often than the others.
    weighted = np.random.default_rng(3).choice([0, 2, 3], 6000, p=[1.1 / 3.1, 1 / 3.1, 1 / 3.1])
    assert chisquare(counts(tuple(weighted), [0, 2, 3])).pvalue < BOUND


def test_random_draws_any_other_usable_code_uniformly_at_the_same_places(groups: Groups) -> None:
    tokens = [1, 5, 3, 0] * 2000
    inside, control = (done(tokens, groups, 5, replacement=r) for r in ("group", "random"))
    assert inside.positions == control.positions
    assert (inside.group_sizes, inside.share) == (control.group_sizes, control.share)
    ones = tuple(control.tokens[i] for i in control.positions if tokens[i] == 1)
    assert chisquare(counts(ones, [0, 2, 3, 4])).pvalue > BOUND
    # What the test must refuse: members of the group alone.
    ones = tuple(inside.tokens[i] for i in inside.positions if tokens[i] == 1)
    assert chisquare(counts(ones, [0, 2, 3, 4])).pvalue < BOUND
    assert not set(control.tokens[i] for i in control.positions) & {5}


@pytest.mark.parametrize("replacement", ["group", "random"])
def test_where_every_token_stands_alone_nothing_changes(synthesizer: Synthesizer, take: Take, replacement: str) -> None:
    usable, coins = synthesizer.voice.usage > 0, torch.Generator().manual_seed(1)
    found = swap(take.tokens, synthesizer.groups(1.0), Swap(1.0, replacement=replacement), usable, coins)
    assert (found.tokens, found.positions, found.share, found.mean_group_size) == (take.tokens, (), 0.0, 1.0)


def test_what_is_no_speech_code_is_refused_and_random_needs_another_code(groups: Groups) -> None:
    for token in (-1, 6, 7):
        with pytest.raises(InputError, match="a speech code from 0 to 5"):
            done([0, token], groups)
    with pytest.raises(InputError, match="codes to draw from is 1"):
        swap([1], groups, Swap(THETA, replacement="random"), torch.arange(6) == 1, torch.Generator())
