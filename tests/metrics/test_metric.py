"""Every metric through one interface: numbers for a batch, a direction, and one sentence about what a sample lacks."""

from collections.abc import Sequence

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.metrics.error_rate import ErrorRate
from pcg.metrics.intelligibility import PocketSphinx
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


def test_error_rates_are_those_of_the_text_whatever_the_rate_of_the_audio() -> None:
    judge = Loudness()
    batch = [
        Sample(constant(0.9), RATE, "Loud."),
        Sample(constant(0.9), 8000, "Soft, soft."),
        Sample(constant(0.1), RATE, "loud"),
    ]
    assert ErrorRate(judge, "wer").measure(batch) == [0.0, 1.0, 1.0]
    assert judge.batches == [(2, RATE), (1, 8000)]
    assert ErrorRate(judge, "cer").measure(batch[2:]) == [0.75]
    assert ErrorRate(judge).measure([]) == []


def test_similarity_is_a_cosine_and_embeds_a_reference_once() -> None:
    ear, speaker = Levels(), Recording(constant(0.5), RATE)
    batch = [Sample(constant(level), RATE, reference=speaker) for level in (0.2, -0.2, 0.0)]
    assert Similarity(ear).measure(batch) == [1.0, -1.0, 0.0]
    assert ear.count == 4


def test_what_a_sample_lacks_is_said_before_anybody_listens() -> None:
    judge, ear = Loudness(), Levels()
    bare, read = Sample(constant(0.5), RATE), Sample(constant(0.5), RATE, "a text")
    for metric, lack in ((ErrorRate(judge), "text"), (ErrorRate(judge, "cer"), "text"), (Similarity(ear), "reference")):
        with pytest.raises(InputError, match=f"{lack} is None, but must be .* {metric.key} compares with") as caught:
            metric.measure([read, bare])
        assert caught.value.field == lack
    assert not judge.batches
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


def test_an_unknown_error_rate_is_refused() -> None:
    with pytest.raises(InputError, match="wer, cer"):
        ErrorRate(Loudness(), "per")


def test_a_recording_is_known_by_its_content() -> None:
    one = Recording(constant(0.5), RATE)
    assert one.fingerprint == Recording(constant(0.5).astype(np.float64), RATE).fingerprint
    others = [Recording(constant(0.5), 8000), Recording(constant(0.51), RATE), Recording(constant(0.5)[:-1], RATE)]
    assert len({r.fingerprint for r in (one, *others)}) == 4


def test_the_offline_metrics_have_names_directions_and_numbers() -> None:
    judge = PocketSphinx()
    metrics: list[Metric] = [ErrorRate(judge, "wer"), ErrorRate(judge, "cer"), DNSMOS(), Similarity(Resemblyzer())]
    assert {m.key: m.higher_is_better for m in metrics} == {"wer": False, "cer": False, "dnsmos": True, "sim": True}
    parts = ("pocketsphinx 5", "pocketsphinx 5", "speechmos 0", "resemblyzer 0")
    assert all(part in m.name for m, part in zip(metrics, parts, strict=True))
    noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    batch = [Sample(s, RATE, "a text", Recording(noise, RATE)) for s in (np.zeros(RATE, np.float32), noise)]
    values = {m.key: m.measure(batch) for m in metrics}
    assert (values["wer"][0], values["cer"][0]) == (1.0, 1.0)
    assert values["dnsmos"][0] == WORST_MOS
    assert values["dnsmos"][1] > 0
    assert values["sim"] == [0.0, pytest.approx(1.0, abs=1e-5)]
