"""The whole evaluation on a voice that babbles, with a judge that is told what to hear, and the heavy parts left asleep."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from pcg.errors import InputError
from pcg.experiments.evaluation.checks import VoiceMatrix, stopping, voice_matrix
from pcg.experiments.evaluation.rows import ORIGINAL
from pcg.experiments.evaluation.table import Report, evaluate
from pcg.metrics.quality import DNSMOS
from pcg.places import PROJECT
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

SENTENCES = ["hello, is this one?", "the quick brown fox jumps", "yes, a lazy dog"]
SETTINGS = Settings(theta=0.3, seed=5)


@dataclass
class Parrot:
    """A judge that says what it was told to, in turn."""

    answers: list[str]
    name: str = "parrot 1.0"
    heard: list[int] = field(default_factory=list)

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        first = len(self.heard)
        self.heard += [len(samples) for samples in recordings]
        return [self.answers[i % len(self.answers)] for i in range(first, len(self.heard))]


@pytest.fixture(scope="module", autouse=True)
def _quick_quality() -> Iterator[None]:
    """DNSMOS takes half a second for every second of sound, and has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DNSMOS, "score", lambda self, samples, sample_rate: 3.0)
        yield


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    torch.set_num_threads(1)
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def report(synthesizer: Synthesizer) -> Report:
    judge = Parrot(["hello is this one", "hello", "", "hello is this one", "hello is this one"])
    noise = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    judges = {"parrot": judge}
    return evaluate(synthesizer, SENTENCES[:1] * 2, METHODS, ["one"], SETTINGS, judges, original=lambda voice, text: noise)


def test_every_method_and_the_original_have_a_row(report: Report) -> None:
    assert [r.method for r in report.rows] == [ORIGINAL, *METHODS]
    assert all(r.n == 2 for r in report.rows)
    assert {m: r.wer.value for m, r in zip([ORIGINAL, *METHODS], report.rows, strict=True)} == {
        ORIGINAL: 0.0, "ar": 0.0, "sd": 0.75, "ssd": 1.0, "pcg": 0.0,
    }  # fmt: skip
    rows = {r.method: r for r in report.rows}
    assert rows["ssd"].cut_short.value == rows["sd"].cut_short.value == 1.0
    assert rows["pcg"].cut_short.value == 0.0
    assert rows[ORIGINAL].similarity.value == pytest.approx(1.0, abs=1e-5)


def test_speed_is_measured_against_ar(report: Report) -> None:
    rows = {r.method: r.speed for r in report.rows}
    assert rows[ORIGINAL] is None
    assert rows["ar"].speed_up == 1.0
    assert rows["ar"].acceptance_rate is None
    assert (rows["ar"].acceptance_of_tested, rows["ar"].acceptance_by_position) == (None, ())
    assert rows["ar"].mean_acceptance_length == 1.0
    for method in ("sd", "ssd", "pcg"):
        assert rows[method].speed_up > 0
        assert 0 <= rows[method].acceptance_rate <= 1
        assert 1 <= rows[method].mean_acceptance_length <= 4
        assert rows[method].acceptance_rate <= rows[method].acceptance_of_tested <= 1
    pcg = [u.work for u in report.utterances if u.method == "pcg"]
    assert rows["pcg"].acceptance_rate == sum(w.accepted for w in pcg) / sum(w.drafted for w in pcg)


def test_acceptance_is_that_of_the_takes_in_both_ways_and_by_position(synthesizer: Synthesizer, report: Report) -> None:
    takes = [synthesizer.take(SENTENCES[0], SETTINGS.with_(method="pcg", seed=s), "one") for s in (5, 6)]
    tests = [[test.accepted for test in round_.tests] for take in takes for round_ in take.rounds]
    speed = next(row.speed for row in report.rows if row.method == "pcg")
    assert speed.acceptance_of_tested == sum(map(sum, tests)) / sum(map(len, tests))
    places = [sum(each[i] for each in tests if len(each) > i) / len(tests) for i in range(3)]
    assert speed.acceptance_by_position == pytest.approx(places)
    line = next(line for line in report.table().splitlines() if line.startswith("| pcg"))
    assert f"| {speed.acceptance_rate:.1%} | {speed.acceptance_of_tested:.1%} |" in line
    assert f"| {' '.join(f'{100 * place:.0f}' for place in places)} |" in line


def test_each_sentence_has_a_seed_of_its_own_shared_by_all_methods(synthesizer: Synthesizer, report: Report) -> None:
    seeds = [u.work.seed for u in report.utterances if u.work]
    assert seeds == [5] * 4 + [6] * 4
    again = [synthesizer.take(SENTENCES[0], SETTINGS.with_(method="pcg", seed=s), "one") for s in (5, 6)]
    assert [len(t.tokens) for t in again] == [u.work.tokens for u in report.utterances if u.method == "pcg"]


def test_the_report_is_json_and_its_table_names_the_judges(report: Report) -> None:
    values = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert values["rows"][4]["wer"]["value"] == 0.0
    assert values["settings"]["theta"] == 0.3
    table = report.table()
    assert "parrot 1.0" in table
    assert all(name in table for name in ("DNSMOS P.835", "resemblyzer", "original recording of the reference"))
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 5
    assert len({line.count("|") for line in lines}) == 1
    assert "0.0 [0.0, 0.0]" in lines[2]


def test_without_ar_and_originals(synthesizer: Synthesizer) -> None:
    done: list[tuple[int, int]] = []
    report = evaluate(
        synthesizer,
        SENTENCES[:2],
        ["pcg"],
        ["two"],
        SETTINGS,
        {"parrot": Parrot(["hello"])},
        progress=lambda i, n: done.append((i, n)),
    )
    assert [r.method for r in report.rows] == ["pcg"]
    assert report.rows[0].speed.speed_up is None
    assert "codec's rendering" in report.table()
    assert done == [(1, 2), (2, 2)]


def test_every_voice_says_each_sentence_and_every_judge_has_a_column(synthesizer: Synthesizer) -> None:
    originals: list[tuple[str, str]] = []

    def original(voice: str, text: str) -> np.ndarray:
        originals.append((voice, text))
        return np.random.default_rng(len(voice)).normal(0, 0.1, 16_000).astype(np.float32)

    judges = {"kind": Parrot(["hello is this one"]), "deaf": Parrot([""])}
    report = evaluate(synthesizer, SENTENCES[:1], ["ar"], ["one", "two"], SETTINGS, judges, original)
    assert report.voice == "one, two"
    assert [(u.voice, u.method) for u in report.utterances] == [
        (voice, method) for voice in ("one", "two") for method in ("ar", ORIGINAL)
    ]
    assert {("one", SENTENCES[0]), ("two", SENTENCES[0])} <= set(originals)
    assert [u.work.seed for u in report.utterances if u.work] == [5, 6]
    for row in report.rows:
        assert row.n == 2
        assert {judge: wer.value for judge, wer in row.wer_by.items()} == {"kind": 0.0, "deaf": 1.0}
        assert (row.wer.value, row.cut_short.value) == (0.0, 0.0), "the first judge is the main one"
    takes = [synthesizer.take(SENTENCES[0], SETTINGS.with_(method="ar", seed=s), v) for s, v in ((5, "one"), (6, "two"))]
    assert [u.work.tokens for u in report.utterances if u.work] == [len(take.tokens) for take in takes]
    title, _, *lines = [line for line in report.table().splitlines() if line.startswith("|")]
    assert "| WER %, kind | WER %, deaf |" in title
    assert all("| 0.0 [0.0, 0.0] | 100.0 [100.0, 100.0] |" in line for line in lines)


def test_nothing_to_speak_is_refused(synthesizer: Synthesizer) -> None:
    judges = {"parrot": Parrot([""])}
    for sentences, methods, voices in (([], ["ar"], ["one"]), (SENTENCES, [], ["one"]), (SENTENCES, ["ar"], [])):
        with pytest.raises(InputError, match="at least one"):
            evaluate(synthesizer, sentences, methods, voices, SETTINGS, judges)


def test_stopping_counts_how_takes_end(synthesizer: Synthesizer) -> None:
    counted = stopping(synthesizer, SENTENCES, SETTINGS, ["one", "two"])
    voices = ("one", "two", "one")
    takes = [synthesizer.take(s, SETTINGS.with_(seed=5 + i), v) for i, (s, v) in enumerate(zip(SENTENCES, voices, strict=True))]
    assert counted.n == 3
    assert counted.hit_limit.value == sum(t.hit_limit for t in takes) / 3
    assert 0 <= counted.cut_short.low <= counted.cut_short.value <= counted.cut_short.high <= 1


class Ear:
    """A speaker judge that finds the k-th take that it hears at a fixed angle."""

    name = "ear 1.0"

    def __init__(self) -> None:
        self._degrees = iter((0, 10, 20, 60, 70, 80))

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        angle = np.deg2rad(next(self._degrees))
        return np.array([np.cos(angle), np.sin(angle)])


@pytest.mark.slow
def test_voices_are_compared_over_pairs_of_different_sentences(
    synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pcg.experiments.evaluation.checks.Resemblyzer", Ear)
    matrix = voice_matrix(synthesizer, SENTENCES, SETTINGS)
    same = np.cos(np.deg2rad([10, 10, 20])).mean()
    other = np.cos(np.deg2rad([70, 80, 50, 70, 40, 50])).mean()
    assert matrix.voices == ("one", "two")
    assert np.array(matrix.similarity) == pytest.approx(np.array([[same, other], [other, same]]))
    assert (matrix.same, matrix.others) == (pytest.approx(same), pytest.approx(other))
    values = json.loads(json.dumps(matrix.as_dict()))
    assert values["reaches_goal"] is True
    assert values["judge"] == "ear 1.0"


def test_a_voice_is_not_compared_with_itself_on_one_sentence(synthesizer: Synthesizer) -> None:
    with pytest.raises(InputError, match="at least two"):
        voice_matrix(synthesizer, SENTENCES[:1], SETTINGS)


@pytest.mark.parametrize(("same", "other", "reached"), [(0.9, 0.5, True), (0.7, 0.5, False), (0.9, 0.7, False)])
def test_the_goal_needs_both_sides(same: float, other: float, reached: bool) -> None:
    matrix = VoiceMatrix(("a", "b"), ((same, other), (other, same)), "judge", 4)
    assert matrix.reaches_goal is reached
    assert f"{same:.3f} | {other:.3f}" in matrix.table()


def test_importing_wakes_no_judge_and_no_engine() -> None:
    heavy = "pocketsphinx resemblyzer speechmos jiwer onnxruntime librosa scipy torch gradio plotly pcg.training"
    code = f"import sys, pcg.experiments.evaluation.table; sys.exit(' '.join(set({heavy!r}.split()) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
