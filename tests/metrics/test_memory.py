"""What is remembered is never measured twice and never wrong, whatever happens to the file."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.metrics.memory import JudgementMemory, RememberedJudge, RememberedMetric
from pcg.metrics.recording import Metric, Recording, Sample

RATE = 16_000


@dataclass
class Mean:
    """A metric that gives the mean sample and notes the sizes of its batches."""

    name: str = "mean 1.0"
    key: str = "mean"
    batches: list[int] = field(default_factory=list)

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        self.batches.append(len(batch))
        return [float(s.samples.mean(dtype=np.float64)) for s in batch]


@dataclass
class Lengths:
    """A judge that says how many samples it heard."""

    name: str = "lengths 1.0"
    batches: list[int] = field(default_factory=list)

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        self.batches.append(len(recordings))
        return [f"{len(r)} sämples" for r in recordings]


def sample(seed: int, **compared: object) -> Sample:
    return Sample(np.random.default_rng(seed).normal(0, 0.1, 50), RATE, **compared)


def mean(seed: int) -> float:
    return float(sample(seed).samples.mean(dtype=np.float64))


def file_of(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_only_what_is_missing_is_measured_in_one_batch(tmp_path: Path) -> None:
    metric = Mean()
    remembered: Metric = RememberedMetric(metric, JudgementMemory(tmp_path))
    assert (remembered.name, remembered.key) == ("mean 1.0", "mean")
    assert remembered.measure([sample(0), sample(1)]) == [mean(0), mean(1)]
    assert remembered.measure([sample(2), sample(1), sample(3), sample(0)]) == [mean(2), mean(1), mean(3), mean(0)]
    assert RememberedMetric(metric, JudgementMemory(tmp_path)).measure([sample(3)]) == [mean(3)]
    assert remembered.measure([]) == []
    assert metric.batches == [2, 2]


def test_everything_that_a_number_depends_on_tells_it_apart(tmp_path: Path) -> None:
    memory, metric = JudgementMemory(tmp_path), Mean()
    one, other = Recording(sample(1).samples, RATE), Recording(sample(2).samples, RATE)
    different = [
        sample(0),
        sample(3),
        sample(0, text="a"),
        sample(0, text="b"),
        sample(0, reference=one),
        sample(0, reference=other),
        sample(0, text="a", reference=one),
        Sample(sample(0).samples, 8000),
    ]
    RememberedMetric(metric, memory).measure(different)
    for changed in (Mean(name="mean 1.1"), Mean(key="average")):
        RememberedMetric(changed, memory).measure(different)
        assert changed.batches == [8]
    RememberedMetric(metric, memory).measure(different)
    assert metric.batches == [8]


def test_transcripts_are_remembered_by_audio_and_judge(tmp_path: Path) -> None:
    judge, memory = Lengths(), JudgementMemory(tmp_path)
    remembered = RememberedJudge(judge, memory)
    short, long = np.zeros(5, np.float32), np.zeros(7, np.float32)
    assert remembered.transcribe([short, long], RATE) == ["5 sämples", "7 sämples"]
    assert remembered.transcribe([long, short, long], RATE) == ["7 sämples", "5 sämples", "7 sämples"]
    assert judge.batches == [2]
    remembered.transcribe([short], 8000)
    remembered.transcribe([short.astype(np.int16)], RATE)
    remembered.transcribe([short[None]], RATE)
    RememberedJudge(Lengths("lengths 2.0", judge.batches), memory).transcribe([short], RATE)
    assert judge.batches == [2, 1, 1, 1, 1]
    assert remembered.name == "lengths 1.0"


def test_what_fails_is_not_remembered(tmp_path: Path) -> None:
    class Refusing(Mean):
        def measure(self, batch: Sequence[Sample]) -> list[float]:
            return [float(len(s.text_for("mean"))) for s in batch]

    remembered = RememberedMetric(Refusing(), JudgementMemory(tmp_path))
    for _ in range(2):
        with pytest.raises(InputError, match="text"):
            remembered.measure([sample(0)])


@pytest.mark.parametrize("damage", [lambda b: b"no database" * 99, lambda b: b[: len(b) // 2 + 100], lambda b: b[:10]])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    metric = Mean()
    remembered = RememberedMetric(metric, JudgementMemory(tmp_path))
    remembered.measure([sample(i) for i in range(40)])
    file_of(tmp_path).write_bytes(damage(file_of(tmp_path).read_bytes()))
    with pytest.warns(UserWarning, match="damaged"):
        assert remembered.measure([sample(i) for i in range(40)]) == [mean(i) for i in range(40)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert remembered.measure([sample(0)]) == [mean(0)]
    assert metric.batches == [40, 40]


def test_a_changed_value_is_noticed_and_made_again(tmp_path: Path) -> None:
    metric = Mean()
    remembered = RememberedMetric(metric, JudgementMemory(tmp_path))
    remembered.measure([sample(0), sample(1)])
    path = file_of(tmp_path)
    digits = f"{mean(1)}".encode()
    assert path.read_bytes().count(digits) == 1
    path.write_bytes(path.read_bytes().replace(digits, digits[:-1] + bytes([digits[-1] ^ 1])))
    with pytest.warns(UserWarning, match="counts as not there"):
        assert remembered.measure([sample(0), sample(1)]) == [mean(0), mean(1)]
    assert remembered.measure([sample(1)]) == [mean(1)]
    assert metric.batches == [2, 1]


def test_no_flipped_byte_makes_a_wrong_number(tmp_path: Path) -> None:
    remembered = RememberedMetric(Mean(), JudgementMemory(tmp_path))
    batch, truth = [sample(i) for i in range(12)], [mean(i) for i in range(12)]
    remembered.measure(batch)
    path = file_of(tmp_path)
    whole = path.read_bytes()
    places = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(150):
            flipped = bytearray(whole)
            for place in places.integers(len(whole), size=20):
                flipped[place] ^= int(places.integers(1, 256))
            path.write_bytes(flipped)
            assert remembered.measure(batch) == truth


def test_where_nothing_can_be_stored_work_goes_on(tmp_path: Path) -> None:
    metric, blocked = Mean(), tmp_path / "file"
    blocked.write_text("no folder")
    remembered = RememberedMetric(metric, JudgementMemory(blocked))
    for _ in range(2):
        with pytest.warns(UserWarning, match="cannot be remembered"):
            assert remembered.measure([sample(0)]) == [mean(0)]
    assert metric.batches == [1, 1]
    assert blocked.read_text() == "no folder"


def test_many_share_one_memory(tmp_path: Path) -> None:
    def work(first: int) -> list[float]:
        metric = RememberedMetric(Mean(), JudgementMemory(tmp_path))
        return [metric.measure([sample(first + i), sample(first + i + 1)])[0] for i in range(10)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(work, range(6)))
    assert found == [[mean(first + i) for i in range(10)] for first in range(6)]
    late = Mean()
    RememberedMetric(late, JudgementMemory(tmp_path)).measure([sample(i) for i in range(16)])
    assert late.batches == []
