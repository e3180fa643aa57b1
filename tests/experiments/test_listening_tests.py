"""Blind listening tests: plans are fair, votes are checked, outcomes are those of the exact tests, records are pooled."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from pcg.cli import main
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests import (
    ANCHOR,
    OPEN,
    PEAK_DB,
    TARGET_LUFS,
    Design,
    Plan,
    Trial,
    Vote,
    as_dict,
    check_vote,
    draw_plan,
    loudness,
    low_anchor,
    matched,
    outcome,
    pool,
    read_listener,
)

AB, ABX = Design("ab", ("AR", "PCG")), Design("abx", ("AR", "PCG"))
RATING = Design("rating", ("AR", "SSD", "PCG"), "AR")
NATURAL, CMOS = Design("nmos", ("AR", "PCG"), "AR"), Design("cmos", ("AR", "PCG"))
PANEL = Design("rating", ("AR", "SSD"), reference="AR")
RATE = 16_000


def plan_of(design: Design, *orders: tuple[str, ...]) -> Plan:
    return Plan(design, tuple(Trial(0, i, order) for i, order in enumerate(orders)), 0)


def tone(seconds: float, level: float, hertz: float = 997.0) -> np.ndarray:
    return level * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE)


@pytest.mark.parametrize("design", [AB, ABX, RATING])
def test_a_seed_is_a_plan_in_which_no_text_comes_twice_before_all_came_once(design: Design) -> None:
    plan = draw_plan(design, 7, 24, 7)
    assert plan == draw_plan(design, 7, 24, 7)
    assert plan.trials != draw_plan(design, 7, 24, 8).trials
    assert all(len(trial.systems) == len(design.letters) for trial in plan.trials)
    assert len({trial.seed for trial in plan.trials}) == 24
    items = [trial.item for trial in plan.trials]
    assert [sorted(items[i : i + 7]) for i in (0, 7, 14)] == [list(range(7))] * 3
    assert len(set(items[21:])) == 3


def test_letters_are_fair_and_follow_nothing() -> None:
    plans = [draw_plan(AB, 1, 50, seed) for seed in range(80)]
    first = np.array([[trial.systems[0] == "AR" for trial in plan.trials] for plan in plans])
    n = first.size
    assert abs(first.mean() - 0.5) < 3.3 * 0.5 / n**0.5
    same = (first[:, 1:] == first[:, :-1]).mean()
    assert abs(same - 0.5) < 3.3 * 0.5 / (n - len(plans)) ** 0.5
    # The bound finds letters that take turns.
    turns = np.arange(50) % 2 == 0
    assert abs((turns[1:] == turns[:-1]).mean() - 0.5) > 3.3 * 0.5 / 49**0.5


def test_x_is_a_or_b_and_either_as_often() -> None:
    trials = [trial for seed in range(40) for trial in draw_plan(ABX, 3, 50, seed).trials]
    assert all(set(trial.systems[:2]) == {"AR", "PCG"} and trial.systems[2] in trial.systems[:2] for trial in trials)
    places = Counter((trial.systems[0], trial.systems.index(trial.systems[2])) for trial in trials)
    assert len(places) == 4
    assert all(abs(count / len(trials) - 0.25) < 3.3 * (0.25 * 0.75 / len(trials)) ** 0.5 for count in places.values())


def test_a_rating_hides_the_reference_among_the_others() -> None:
    trials = draw_plan(RATING, 3, 60, 1).trials
    assert RATING.letters == (OPEN, "A", "B", "C", "D")
    assert all(t.systems[0] == "AR" and sorted(t.systems[1:]) == ["AR", "PCG", "SSD", ANCHOR] for t in trials)
    assert len({t.systems.index("AR", 1) for t in trials}) == 4
    assert NATURAL.letters == ("A", "B", "C")
    assert Design("nmos", ("AR", "PCG")).letters == ("A", "B")


def test_the_low_anchor_is_the_reference_without_its_high_tones() -> None:
    low, high = (tone(0.5, 0.3, hertz) for hertz in (1000, 6000))
    heard = low_anchor(low + high, RATE)[800:-800]
    assert np.abs(heard - low[800:-800]).max() < 0.01
    assert len(low_anchor(low[:40], RATE)) == 40


def test_designs_that_ask_nothing_are_refused() -> None:
    for fields, told in (
        (("abc", ("AR", "PCG")), "design is 'abc', but must be one of ab, abx, cmos, nmos, rating"),
        (("ab", ("AR",)), "exactly 2 that differ"),
        (("abx", ("AR", "SD", "PCG")), "exactly 2 that differ"),
        (("rating", ("AR",), "AR"), "2 to 6 that differ"),
        (("rating", ("AR", "PCG")), "reference is missing"),
        (("ab", ("AR", "PCG"), "AR"), "left out, except where systems are rated"),
    ):
        with pytest.raises(InputError, match=told):
            Design(*fields)


def test_votes_that_do_not_answer_or_come_before_the_sounds_are_refused() -> None:
    for design, answer, plays in (
        (AB, "X", [1, 1]),
        (AB, ["A"], [1, 1]),
        (AB, "A", [1]),
        (AB, "A", [1, -1]),
        (ABX, "tie", [1, 1, 1]),
        (RATING, [1, 2, 3], [1] * 5),
        (RATING, [1, 2, 3, 101], [1] * 5),
        (RATING, [1, 2, 3, float("nan")], [1] * 5),
        (NATURAL, [0, 1, 2], [1] * 3),
        (CMOS, [4], [1, 1]),
        (CMOS, [1, 2], [1, 1]),
        (CMOS, "A", [1, 1]),
    ):
        with pytest.raises(InputError):
            check_vote(design, answer, plays)
    with pytest.raises(InputError, match="given before B, X was played"):
        check_vote(ABX, "A", [2, 0, 0])
    assert check_vote(AB, "tie", [2, 1]) == Vote("tie", (2, 1))
    assert check_vote(RATING, [0, 100, 4.5, 1], [1] * 5).answer == (0.0, 100.0, 4.5, 1.0)
    assert check_vote(CMOS, [-3], [1, 1]).answer == (-3.0,)


def test_preferences_are_counted_by_system_and_ties_left_out() -> None:
    plan = plan_of(AB, ("AR", "PCG"), ("PCG", "AR"), ("PCG", "AR"), ("AR", "PCG"))
    found = outcome(plan, [Vote(answer, (1, 1)) for answer in ("B", "A", "B", "tie")])
    assert (found.n, found.ties) == (3, 1)
    assert {f.name: f.count for f in found.figures} == {"AR preferred": 1, "PCG preferred": 2}
    expected = binomtest(2, 3)
    wilson = expected.proportion_ci(method="wilson")
    estimate = found.figures[1].estimate
    assert (estimate.low, estimate.high) == pytest.approx((wilson.low, wilson.high), abs=1e-5)
    assert found.p == pytest.approx(expected.pvalue)
    assert "1 tie left out." in found.sentences


def test_recognitions_are_tested_one_sided() -> None:
    plan = plan_of(ABX, *[("AR", "PCG", "PCG")] * 9, ("PCG", "AR", "PCG"))
    found = outcome(plan, [Vote("B", (1, 1, 1))] * 10)
    assert (found.n, found.figures[0].count) == (10, 9)
    assert found.p == pytest.approx(binomtest(9, 10, alternative="greater").pvalue)
    assert found.sentences[0].startswith("That a difference was heard is shown")


def test_who_always_says_a_prefers_nobody_and_who_hears_it_is_believed() -> None:
    plans = [draw_plan(AB, 4, 20, seed) for seed in range(300)]
    found = [outcome(plan, [Vote("A", (1, 1))] * 20).p < 0.05 for plan in plans]
    assert np.mean(found) < 0.05 + 3.3 * (0.05 * 0.95 / 300) ** 0.5
    keen = [[Vote("AB"[t.systems.index("PCG")], (1, 1)) for t in plan.trials] for plan in plans[:20]]
    assert all(outcome(plan, votes).p < 0.001 for plan, votes in zip(plans, keen, strict=False))


def test_too_few_votes_are_called_that() -> None:
    plan = plan_of(AB, *[("AR", "PCG")] * 6)
    five, six = (outcome(plan, [Vote("B", (1, 1))] * n) for n in (5, 6))
    assert five.too_small
    assert "n too small: 5 votes; it takes at least 6 to show anything." in five.sentences[0]
    assert not six.too_small
    assert six.p < 0.05 < five.p
    nothing = outcome(plan, [])
    assert (nothing.n, nothing.p, nothing.figures[0].estimate, nothing.too_small) == (0, None, None, True)


def test_ratings_are_means_by_system_and_differences_are_paired() -> None:
    plan = plan_of(RATING, ("AR", "PCG", "AR", "SSD", ANCHOR), ("AR", "AR", "PCG", "SSD", ANCHOR))
    votes = [Vote((80.0, 100.0, 60.0, 10.0), (1,) * 5), Vote((80.0, 70.0, 40.0, 20.0), (1,) * 5)]
    found = outcome(plan, votes)
    values = {f.name: f.estimate.value for f in found.figures}
    means, differences = {"AR": 90, "SSD": 50, "PCG": 75, ANCHOR: 15}, {"SSD": -40, "PCG": -15, ANCHOR: -75}
    assert values == means | {f"{name} less AR": value for name, value in differences.items()}
    difference = next(f.estimate for f in found.figures if f.name == "SSD less AR")
    # The same in both trials, although the ratings themselves are not.
    assert (difference.low, difference.high) == (-40, -40)
    assert (found.missed, found.too_small) == (1, True)
    assert any("less than 90 in 1 of 2 trials; by BS.1534" in sentence for sentence in found.sentences)
    natural = outcome(plan_of(NATURAL, ("PCG", ANCHOR, "AR")), [Vote((4.0, 1.0, 3.0), (1,) * 3)])
    values = {f.name: f.estimate.value for f in natural.figures}
    assert values == {"AR": 3, "PCG": 4, ANCHOR: 1, "PCG less AR": 1, f"{ANCHOR} less AR": -2}
    assert (natural.missed, natural.p) == (1, None)


def test_comparisons_are_means_of_the_second_over_the_first_whatever_was_a() -> None:
    plan = plan_of(CMOS, ("AR", "PCG"), ("PCG", "AR"), ("PCG", "AR"))
    found = outcome(plan, [Vote((2.0,), (1, 1)), Vote((-1.0,), (1, 1)), Vote((0.0,), (1, 1))])
    (figure,) = found.figures
    assert (figure.name, figure.estimate.value, found.ties, found.n) == ("PCG over AR", 1.0, 1, 3)
    assert found.p == 0.5
    sure = outcome(plan_of(CMOS, *[("AR", "PCG")] * 8), [Vote((1.0,), (1, 1))] * 8)
    assert "one is preferred is shown" in sure.sentences[0]


def test_a_record_tells_everything_in_the_order_heard() -> None:
    plan = draw_plan(RATING, 2, 3, 5)
    votes = [Vote((1.0, 2.0, 3.0, 4.0), (5, 1, 1, 2, 1))] * 2
    record = json.loads(json.dumps(as_dict(plan, ["one", "two"], votes, {"AR": {"rtf": 0.5}}), allow_nan=False))
    assert (record["version"], record["seed"], record["trials"][2]["vote"], record["outcome"]["n"]) == (1, 5, None, 2)
    assert list(record["trials"][0]["order"].values()) == list(plan.trials[0].systems)
    assert record["trials"][1]["vote"] == {"answer": [1, 2, 3, 4], "plays": [5, 1, 1, 2, 1]}


@pytest.mark.parametrize("seconds", [3.0, 0.4, 0.3, 0.05])
def test_loudness_is_that_of_the_standard(seconds: float) -> None:
    # BS.1770: a sine of 997 Hz at full scale in one channel has -3.01 LUFS.
    assert loudness(tone(seconds, 0.1), RATE) == pytest.approx(-23.01, abs=0.7 if seconds < 0.1 else 0.15)


def test_copies_are_equally_loud_and_long_and_keep_their_headroom() -> None:
    noise = np.random.default_rng(0).standard_normal(RATE)
    peaky = 0.01 * noise
    peaky[::4000] = 0.9
    sounds = [tone(1.0, 0.5), tone(2.0, 0.01, 300), 0.05 * noise, peaky.astype(np.float32), tone(0.3, 0.2)]
    copies = matched(sounds, RATE)
    assert {len(copy) for copy in copies} == {2 * RATE}
    heard = [loudness(copy[: len(sound)], RATE) for copy, sound in zip(copies, sounds, strict=True)]
    assert max(heard) - min(heard) < 0.1
    assert max(heard) < TARGET_LUFS
    assert max(np.abs(copy).max() for copy in copies) == pytest.approx(10 ** (PEAK_DB / 20))
    silent = matched([np.zeros(100), np.zeros(0, np.float32)], RATE)
    assert [(len(copy), np.any(copy)) for copy in silent] == [(1600, False)] * 2
    untouched = [loudness(sound, RATE) for sound in sounds]
    assert max(untouched) - min(untouched) > 10
    assert loudness(matched([tone(1, 0.5)], RATE)[0], RATE) == pytest.approx(TARGET_LUFS, abs=0.05)


def recorded(folder: Path, name: str, design: Design, wanted: list[object], seed: int = 0) -> Path:
    """A record in which each trial's vote is for the wanted system, a tie, or the wanted scores by system."""
    plan = draw_plan(design, 1, len(wanted), seed)
    votes = []
    for trial, wish in zip(plan.trials, wanted, strict=True):
        placed = dict(zip(trial.systems[:2], "AB", strict=False))
        if design.kind == "cmos":
            votes.append(Vote((float(wish if trial.systems[1] == "PCG" else -wish),), (1, 1)))
        elif design.kind == "rating":
            hidden = [s for s, letter in zip(trial.systems, design.letters, strict=True) if letter != "R"]
            votes.append(Vote(tuple(float(wish[s]) for s in hidden), (1,) * len(design.letters)))
        else:
            target = trial.systems[-1] if wish == "X" else wish
            votes.append(Vote("tie" if wish == "tie" else placed[target], (1,) * len(design.letters)))
    path = folder / f"{name}.json"
    path.write_text(json.dumps(as_dict(plan, ["t"], votes, {})), encoding="utf-8")
    return path


def test_each_listener_counts_as_one_however_many_trials(tmp_path: Path) -> None:
    keen = recorded(tmp_path, "keen", AB, ["PCG"] * 9 + ["AR"])
    short = recorded(tmp_path, "short", AB, ["tie", "AR"], seed=3)
    (found,) = pool([read_listener(keen), read_listener(short)])
    assert found.shares["PCG"].value == pytest.approx((0.9 + 0.25) / 2)
    assert (found.listeners, found.trials, found.left_out) == (2, 12, 0)


def test_a_preference_that_most_listeners_share_is_found_and_chance_is_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def panel(share: float) -> float:
        wishes = [["PCG" if rng.random() < share else "AR" for _ in range(12)] for _ in range(12)]
        (found,) = pool([read_listener(recorded(tmp_path, str(i), AB, w, seed=i)) for i, w in enumerate(wishes)])
        assert found.shares["PCG"].low <= found.shares["PCG"].value <= found.shares["PCG"].high
        return found.p

    assert panel(0.85) < 0.01
    assert np.mean([panel(0.5) < 0.05 for _ in range(20)]) <= 0.2


def test_who_misses_the_hidden_reference_is_left_out(tmp_path: Path) -> None:
    good = recorded(tmp_path, "good", PANEL, [{"AR": 100, "SSD": 60, ANCHOR: 10}] * 4)
    deaf = recorded(tmp_path, "deaf", PANEL, [{"AR": 20, "SSD": 100, ANCHOR: 10}] * 4)
    (found,) = pool([read_listener(good), read_listener(deaf)])
    assert (found.listeners, found.left_out, found.shares["SSD"].value, found.p) == (1, 1, 60, None)


def test_agreement_of_listeners_is_that_of_their_answers_on_the_same_trials(tmp_path: Path) -> None:
    """Alpha is 1 where all say the same, about 0 by chance, below it where they contradict; other trials tell nothing."""
    scores, rng = [3, -2, 1, 0, 2, -3, 1, -1], np.random.default_rng(0)

    def alpha(*listeners: list[int], seeds: tuple[int, ...] = (0, 0, 0, 0)) -> float | None:
        records = [recorded(tmp_path, str(i), CMOS, w, seed) for i, (w, seed) in enumerate(zip(listeners, seeds, strict=False))]
        (found,) = pool([read_listener(record) for record in records])
        return found.agreement

    assert alpha(scores, scores, scores) == pytest.approx(1)
    assert alpha(scores, [-score for score in scores]) < -0.5
    assert abs(np.mean([alpha(*rng.integers(-3, 4, (4, 8)).tolist()) for _ in range(60)])) < 0.05
    assert alpha(scores, scores, seeds=(1, 2)) is None


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 9}', b"\xff", b'{"version": 1, "design": {"kind": "ab"}}'])
def test_other_files_are_refused_in_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "other.json").write_bytes(content)
    with pytest.raises(InputError, match="a record of a listening test"):
        read_listener(tmp_path / "other.json")
    assert main(["listeners", str(tmp_path / "other.json")]) == 2
    assert "other.json" in capsys.readouterr().err


def test_the_command_prints_each_kind_and_json(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    files = [recorded(tmp_path, str(i), AB, ["PCG", "PCG", "AR"], seed=i) for i in range(3)]
    files.append(recorded(tmp_path, "abx", ABX, ["X", "X", "AR"]))
    assert main(["listeners", *map(str, files)]) == 0
    *told, last = capsys.readouterr().out.splitlines()
    assert told[0] == "ab: 3 listeners, 9 trials"
    preference, recognition = json.loads(last)
    assert preference["shares"]["PCG"]["value"] == pytest.approx(0.6667, abs=1e-4)
    assert recognition["shares"]["recognised"]["value"] >= 2 / 3
    with pytest.raises(PCGError, match="has a vote"):
        pool([])
