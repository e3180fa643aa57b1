"""Every metric through one interface: numbers for a batch, a direction, and one sentence about what a sample lacks."""

from collections.abc import Sequence

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.metrics.intelligibility import transcripts
from pcg.metrics.metric import Metric, Sample
from pcg.metrics.quality import DNSMOS, WORST_MOS
from pcg.metrics.recording import Recording
from pcg.metrics.speaker import Resemblyzer, Similarity

RATE = 16_000


class Loudness:
    """A judge that hears "loud" in whatever is louder than 0.5, else "soft"; it notes the batches that it was given."""

    name = "loudness 1.0"

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        self.batches.append((len(recordings), sample_rate))
        return ["loud" if np.max(r) > 0.5 else "soft" for r in recordings]


class Levels:
    """A speaker encoder to which the two signs of a constant signal are opposite voices."""

    name = "levels 1.0"

    def __init__(self) -> None:
        self.count = 0

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        self.count += 1
        return np.array([np.sign(samples.mean()), 0.0])


def constant(level: float) -> np.ndarray:
    return np.full(100, level, np.float32)


def test_recordings_of_one_rate_go_to_a_judge_together() -> None:
    judge = Loudness()
    batch = [Recording(constant(0.9), RATE), Recording(constant(0.9), 8000), Recording(constant(0.1), RATE)]
    assert transcripts(judge, batch) == ["loud", "loud", "soft"]
    assert judge.batches == [(2, RATE), (1, 8000)]
    assert transcripts(judge, []) == []


def test_similarity_is_a_cosine_and_embeds_a_reference_once() -> None:
    ear, speaker = Levels(), Recording(constant(0.5), RATE)
    batch = [Sample(constant(level), RATE, reference=speaker) for level in (0.2, -0.2, 0.0)]
    assert Similarity(ear).measure(batch) == [1.0, -1.0, 0.0]
    assert ear.count == 4


def test_what_a_sample_lacks_is_said_before_anybody_listens() -> None:
    ear, bare = Levels(), Sample(constant(0.5), RATE)
    with pytest.raises(InputError, match=r"reference is missing, but must be .* sim compares with"):
        Similarity(ear).measure([bare])
    with pytest.raises(InputError, match=r"text is missing, but must be .* wer compares with"):
        bare.text_for("wer")
    assert not ear.count


@pytest.mark.parametrize(
    ("samples", "rate", "complaint"),
    [
        (np.zeros((2, 100), np.float32), RATE, "one channel"),
        (np.zeros(100, np.int16), RATE, "floats"),
        (np.array([0.0, np.nan]), RATE, "finite"),
        (np.zeros(100, np.float32), 0, "Hz"),
    ],
)
def test_what_is_no_audio_is_refused(samples: np.ndarray, rate: int, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Recording(samples, rate)


def test_a_recording_is_known_by_its_content() -> None:
    one = Recording(constant(0.5), RATE)
    assert one.fingerprint == Recording(constant(0.5).astype(np.float64), RATE).fingerprint
    others = [Recording(constant(0.5), 8000), Recording(constant(0.51), RATE), Recording(constant(0.5)[:-1], RATE)]
    assert len({r.fingerprint for r in (one, *others)}) == 4


def test_the_offline_metrics_have_names_directions_and_numbers() -> None:
    metrics: list[Metric] = [DNSMOS(), Similarity(Resemblyzer())]
    assert {m.key: m.higher_is_better for m in metrics} == {"dnsmos": True, "sim": True}
    assert all(part in m.name for m, part in zip(metrics, ("speechmos 0", "resemblyzer 0"), strict=True))
    noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    batch = [Sample(s, RATE, reference=Recording(noise, RATE)) for s in (np.zeros(RATE, np.float32), noise)]
    values = {m.key: m.measure(batch) for m in metrics}
    assert values["dnsmos"][0] == WORST_MOS
    assert values["dnsmos"][1] > 0
    assert values["sim"] == [0.0, pytest.approx(1.0, abs=1e-5)]
