"""Many listeners' records: each counts as one, whoever missed the reference is left out, other files are refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from pcg.cli import main
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests import Design, Vote, as_dict, draw_plan, pool, read_listener

AB, ABX = Design("ab", ("AR", "PCG")), Design("abx", ("AR", "PCG"))
RATING = Design("rating", ("AR", "SSD"), reference="AR")


def recorded(folder: Path, name: str, design: Design, wanted: list[object], seed: int = 0) -> Path:
    """A record in which each trial's vote is for the wanted system, a tie, or the wanted scores by system."""
    plan = draw_plan(design, 1, len(wanted), seed)
    votes = []
    for trial, wish in zip(plan.trials, wanted, strict=True):
        placed = dict(zip(trial.systems[:2], "AB", strict=False))
        if design.kind == "rating":
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
    good = recorded(tmp_path, "good", RATING, [{"AR": 100, "SSD": 60}] * 4)
    deaf = recorded(tmp_path, "deaf", RATING, [{"AR": 20, "SSD": 100}] * 4)
    (found,) = pool([read_listener(good), read_listener(deaf)])
    assert (found.listeners, found.left_out, found.shares["SSD"].value, found.p) == (1, 1, 60, None)


def test_tests_of_different_kinds_are_told_apart(tmp_path: Path) -> None:
    files = [recorded(tmp_path, "ab", AB, ["PCG"]), recorded(tmp_path, "abx", ABX, ["X", "X", "AR"])]
    preference, recognition = pool([read_listener(file) for file in files])
    assert (preference.kind, recognition.kind) == ("ab", "abx")
    assert recognition.shares["recognised"].value >= 2 / 3


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 9}', b"\xff", b'{"version": 1, "design": {"kind": "ab"}}'])
def test_other_files_are_refused_in_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "other.json").write_bytes(content)
    with pytest.raises(InputError, match="a record of a listening test"):
        read_listener(tmp_path / "other.json")
    assert main(["listening-test", "summarise", str(tmp_path / "other.json")]) == 2
    assert "other.json" in capsys.readouterr().err


def test_the_command_prints_each_kind_and_json(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    files = [str(recorded(tmp_path, str(i), AB, ["PCG", "PCG", "AR"], seed=i)) for i in range(3)]
    assert main(["listening-test", "summarise", *files]) == 0
    *told, last = capsys.readouterr().out.splitlines()
    assert told[0] == "ab: 3 listeners, 9 trials"
    assert json.loads(last)[0]["shares"]["PCG"][0] == pytest.approx(0.6667, abs=1e-4)
    with pytest.raises(PCGError, match="has a vote"):
        pool([])
