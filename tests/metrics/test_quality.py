"""Measurements on signals whose answer is known, and the opinion score against its own package and against noise."""

import shutil

import numpy as np
import pytest

from pcg.metrics.quality import DNSMOS, WORST_MOS, clicks, clipped_share, measure, silence

RATE = 16_000


def tone(seconds: float = 1.0, level: float = 0.5, hertz: float = 220.0) -> np.ndarray:
    """A sine that fades in and out over 10 ms."""
    moments = np.arange(int(seconds * RATE)) / RATE
    envelope = np.clip(np.minimum(moments, moments[::-1]) / 0.01, 0, 1)
    return (level * envelope * np.sin(2 * np.pi * hertz * moments)).astype(np.float32)


def test_clipping_is_the_share_at_full_scale() -> None:
    assert clipped_share(tone()) == 0.0
    assert clipped_share(np.array([0.5, 1.0, -1.0, 0.9], np.float32)) == 0.5
    assert clipped_share(np.clip(tone(level=1.4), -1, 1)) > 0.4
    assert clipped_share(np.zeros(0, np.float32)) == 0.0


def test_silence_is_measured_at_both_ends() -> None:
    padded = np.concatenate([np.zeros(RATE // 2, np.float32), tone(), np.zeros(RATE // 4, np.float32)])
    assert silence(padded, RATE) == (pytest.approx(0.5, abs=0.005), pytest.approx(0.25, abs=0.005))
    assert silence(np.zeros(RATE, np.float32), RATE) == (1.0, 0.0)
    assert silence(np.zeros(0, np.float32), RATE) == (0.0, 0.0)


def test_smooth_sounds_have_no_clicks() -> None:
    noise = np.random.default_rng(0).normal(0, 0.2, RATE)
    pulses = np.convolve(np.arange(RATE) % 133 == 0, [0.2, 0.9, 0.4, -0.3, -0.1])[:RATE]
    for smooth in (tone(), tone(hertz=3000), noise * np.hanning(RATE), pulses * np.hanning(RATE), np.zeros(RATE)):
        assert clicks(smooth.astype(np.float32), RATE) == 0
    assert clicks(np.zeros(0, np.float32), RATE) == 0


def test_a_spike_a_step_and_a_hard_start_are_one_click_each() -> None:
    spike, step = tone(), tone()
    spike[5000] += 0.2
    step[8000:] += 0.2
    step[-800:] *= np.linspace(1, 0, 800, dtype=np.float32)
    hard = tone(hertz=200)[4020:]
    assert [clicks(x, RATE) for x in (spike, step, hard)] == [1, 1, 1]
    spike[9000] -= 0.3
    assert clicks(spike, RATE) == 2


def test_a_measurement_gathers_them() -> None:
    sound = measure(tone(2.0), RATE)
    assert sound.seconds == 2.0
    assert (sound.clipped, sound.clicks) == (0.0, 0)


@pytest.mark.slow
def test_mos_is_the_package_own_figure_and_falls_with_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    from speechmos import dnsmos

    # The package's second model needs features that take seconds to compile, and the overall score does not need it.
    monkeypatch.setattr(dnsmos.DNSMOS, "audio_melspec", lambda self, audio: np.zeros((900, 120)))
    judge = DNSMOS()
    samples = tone(12.5) * np.random.default_rng(0).uniform(0.2, 1, 200_000)[: int(12.5 * RATE)].astype(np.float32)
    assert judge.score(samples, RATE) == pytest.approx(float(dnsmos.run(samples, RATE)["ovrl_mos"]), abs=1e-4)
    assert judge.score(np.zeros(RATE, np.float32), RATE) == WORST_MOS
    assert judge.score(np.zeros(0, np.float32), RATE) == WORST_MOS


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_mos_of_speech_falls_with_noise() -> None:
    from pcg.training.data.corpus import speak

    judge, speech = DNSMOS(), speak("rms", "The children played in the yard until dinner was ready.")
    noisy = speech + np.random.default_rng(0).normal(0, 0.05, len(speech)).astype(np.float32)
    assert judge.score(speech, RATE) > judge.score(noisy, RATE) + 0.5
    assert clicks(speech, RATE) == 0
