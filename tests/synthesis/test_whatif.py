"""A take read again: its trace; and estimates along it, against its own tests, brute force, and takes that were decoded."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.whatif import Path as TakePath
from pcg.synthesis.whatif import acceptance_of, coarse_acceptance, estimate, follow, surprisal, tolerant_acceptance, what_if
from pcg.take import Take

TEXT = "Hello, yes."
SEEDS = range(12)
# In the mean over 12 takes; the standard error of the decoded rates is below 0.015.
TOLERANCE = 0.05


def decoded(synthesizer: Synthesizer, settings: Settings) -> list[Take]:
    return [synthesizer.take(TEXT, settings.with_(seed=seed, temperature=0.6), "one") for seed in SEEDS]


@pytest.fixture(scope="module")
def takes(synthesizer: Synthesizer) -> list[Take]:
    return decoded(synthesizer, Settings("pcg", theta=0.2))


@pytest.fixture(scope="module")
def paths(synthesizer: Synthesizer, takes: Sequence[Take]) -> list[TakePath]:
    return [follow(synthesizer, take) for take in takes]


def test_reading_again_gives_the_laws_that_the_tests_saw(takes: Sequence[Take], paths: Sequence[TakePath]) -> None:
    for take, path in zip(takes, paths, strict=True):
        assert path.starts == (0, len(take.tokens) + take.rounds[-1].ended)
        place, seen, again, shifted = 0, [], [], []
        for round_ in take.rounds:
            for i, test in enumerate(round_.tests[: len(path.p) - place]):
                seen.append((test.p, test.q))
                again.append((path.p[place + i, test.token], path.q[place + i, test.token]))
                shifted.append((path.p[place + i - 1, test.token], path.q[place + i - 1, test.token]))
            place += len(round_.tokens)
        assert np.array(again) == pytest.approx(np.array(seen), abs=1e-4)
        # What this must refuse: laws of the neighbouring position.
        assert np.abs(np.array(shifted) - np.array(seen)).mean() > 0.02


def laws(count: int, seed: int) -> TakePath:
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.full(7, 0.5), (2, count)).astype(np.float32)
    return TakePath(p, q, (0, count))


def test_tolerance_is_averaged_over_what_the_draft_may_draw() -> None:
    path = laws(20, 0)
    for beta in (0.0, 0.3):
        passing = np.minimum(1, np.minimum(1, path.q / path.p) + beta)
        assert tolerant_acceptance(path, beta) == pytest.approx((path.p * passing).sum(1), abs=1e-6)
    assert tolerant_acceptance(path, 1.0) == pytest.approx(np.ones(20))


def test_groups_accept_as_often_as_their_coarse_laws_overlap() -> None:
    path = laws(400, 1)
    sets = [[0, 1, 2], [0, 1], [0, 2, 3], [2, 3], [4, 5], [4, 5], [6]]
    indptr, members = torch.tensor([0, *np.cumsum([len(s) for s in sets])]), torch.tensor([t for s in sets for t in s])
    overlapping = Groups.from_sets(0.5, indptr, members)
    for groups in (overlapping, Groups.singletons(7)):
        exact = [float(groups.masses(p).minimum(groups.masses(q)).sum()) for p, q in zip(path.p, path.q, strict=True)]
        found = coarse_acceptance(path, groups)
        assert found.mean() == pytest.approx(np.mean(exact), abs=0.02)
        assert np.corrcoef(found, exact)[0, 1] > 0.9
    # What this must refuse: the overlap of the tokens' own laws.
    assert abs(coarse_acceptance(path, overlapping).mean() - tolerant_acceptance(path).mean()) > 0.02


def walked(acceptance: np.ndarray, lookahead: int, generator: np.random.Generator) -> np.ndarray:
    """Rounds, drafted and accepted tokens of one random walk over the positions, the last of which is the end of speech."""
    place, counts = 0, np.zeros(3)
    while place < len(acceptance):
        ahead = acceptance[place : place + lookahead]
        passed = generator.random(len(ahead)) < ahead
        accepted = len(ahead) if passed.all() else int(passed.argmin())
        counts += (1, lookahead, accepted)
        place += accepted + 1
    return counts


@pytest.mark.parametrize("lookahead", [1, 3, 8])
def test_expectations_agree_with_random_walks(lookahead: int) -> None:
    generator = np.random.default_rng(2)
    acceptance = generator.random(25)
    path = TakePath(np.ones((25, 1)), np.ones((25, 1)), (0, 10, 25))
    walks = [sum(walked(piece, lookahead, generator) for piece in (acceptance[:10], acceptance[10:])) for _ in range(4000)]
    rounds, drafted, accepted = np.mean(walks, 0)
    found = estimate(path, acceptance, lookahead)
    assert found.acceptance_rate == pytest.approx(accepted / drafted, abs=0.01)
    assert found.mean_acceptance_length == pytest.approx(1 + accepted / rounds, abs=0.02)
    # What this must refuse: one piece in place of two, of another lookahead.
    other = estimate(path, acceptance, lookahead + 2).acceptance_rate
    assert abs(other - accepted / drafted) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        Settings("pcg", theta=0.2),
        Settings("pcg", theta=0.3),
        Settings("sd"),
        Settings("ssd", beta=0.5),
        Settings("pcg", theta=0.2, lookahead=8),
    ],
    ids=["own", "theta", "sd", "beta", "lookahead"],
)
def test_the_estimate_is_near_what_is_decoded(
    settings: Settings, synthesizer: Synthesizer, takes: Sequence[Take], paths: Sequence[TakePath]
) -> None:
    there = takes if settings == Settings("pcg", theta=0.2) else decoded(synthesizer, settings)
    rate = sum(r.accepted for t in there for r in t.rounds) / sum(t.drafted for t in there)
    found = [estimate(p, acceptance_of(synthesizer, p, settings), settings.lookahead).acceptance_rate for p in paths]
    assert np.mean(found) == pytest.approx(rate, abs=TOLERANCE)
    if there is not takes:
        # What the tolerance must refuse: that nothing changes.
        own = sum(r.accepted for t in takes for r in t.rounds) / sum(t.drafted for t in takes)
        assert abs(own - rate) > TOLERANCE


def test_rows_of_a_take(synthesizer: Synthesizer, takes: Sequence[Take]) -> None:
    found = what_if(synthesizer, takes[0])
    rows = {knob: dict(row) for knob, row in found.items()}
    assert rows["theta"][0.2] == rows["lookahead"][3]
    assert rows["theta"][1.0].acceptance_rate == pytest.approx(rows["beta"][0.0].acceptance_rate, abs=0.03)
    assert rows["beta"][1.0].acceptance_rate > 0.9
    for unlike in (Settings("ar"), Settings("sd", verification="block")):
        assert "lookahead" not in what_if(synthesizer, synthesizer.take(TEXT, unlike, "one"))


def test_a_long_text_that_was_cut_within_is_refused(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesizer, "chunks", lambda text: text.split(", "))
    for seed in range(20):
        take = synthesizer.take(TEXT, Settings("ar", seed=seed), "one")
        ended = sum(r.ended for r in take.rounds)
        if ended == 2:
            path = follow(synthesizer, take)
            assert len(path.p) == path.starts[-1] == len(take.tokens) + 2
        elif ended == 0:
            with pytest.raises(InputError, match="every piece of the text came to its end"):
                follow(synthesizer, take)
            return
    raise AssertionError("no take was cut")


def test_surprisal_is_that_of_the_probabilities_that_the_tokens_were_drawn_from(
    synthesizer: Synthesizer, takes: Sequence[Take], paths: Sequence[TakePath]
) -> None:
    q = torch.from_numpy(paths[0].q[: len(takes[0].tokens)]).double()
    expected = -q[torch.arange(len(q)), torch.tensor(takes[0].tokens)].log().sum()
    assert surprisal(synthesizer, takes[0]) == pytest.approx(float(expected), rel=1e-5)
