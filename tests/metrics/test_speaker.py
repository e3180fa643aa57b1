"""The speaker judge: two sentences of one voice are closer than two voices; silence resembles nobody."""

import shutil

import numpy as np
import pytest

from pcg.metrics.speaker import Resemblyzer, cosine

RATE = 16_000


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_one_voice_is_closer_to_itself_than_to_another() -> None:
    from pcg.training.data.corpus import speak

    judge = Resemblyzer()
    one, again = "There is fresh soup on the table.", "Nobody knew where the music was coming from."
    first, second, other = (judge.embed(speak(v, s), RATE) for v, s in (("slt", one), ("slt", again), ("rms", one)))
    assert cosine(first, second) > 0.75
    assert cosine(first, other) < 0.7
    assert cosine(first, first) == pytest.approx(1.0, abs=1e-5)


def test_silence_resembles_nobody() -> None:
    judge = Resemblyzer()
    voice = judge.embed(np.random.default_rng(0).normal(0, 0.1, RATE), RATE)
    assert np.linalg.norm(voice) == pytest.approx(1.0, abs=1e-5)
    for length in (0, 10, RATE):
        silent = judge.embed(np.zeros(length, np.float32), RATE)
        assert silent.shape == voice.shape
        assert cosine(voice, silent) == 0.0
    assert judge.name.startswith("resemblyzer ")
