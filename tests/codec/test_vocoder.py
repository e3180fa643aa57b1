"""Pulses, filters and spectra of the vocoder, and the pitch that drives it."""

import math

import pytest
import torch

from pcg.codec.embedded import minimum_phase, phases, pulses, vocode
from pcg.training.codec import pitch as track

RATE, FRAME, WINDOW = 16_000, 160, 640


def train_at(frequency, frames=100):
    tone = torch.full((1, frames), float(frequency))
    return pulses(phases(tone, FRAME, RATE)[:, :-1], tone, FRAME, RATE)


@pytest.mark.parametrize("frequency", [50.0, 100.0, 163.7, 400.0])
def test_pulses_have_unit_power_and_only_harmonics(frequency):
    wave = train_at(frequency)
    assert float(wave.square().mean()) == pytest.approx(1.0, rel=0.05)
    assert torch.isfinite(wave).all()
    spectrum = torch.fft.rfft(wave[0] * torch.hann_window(wave.shape[1])).abs()
    at = torch.arange(len(spectrum)) * RATE / wave.shape[1]
    off = ((at / frequency).round() * frequency - at).abs() > 6
    assert spectrum[off].max() < 0.02 * spectrum.max()


def test_a_filter_of_minimum_phase_keeps_its_magnitude_and_looks_back_only():
    bins = torch.arange(WINDOW // 2 + 1)
    log_magnitude = (1.5 * torch.cos(2 * math.pi * 3 * bins / WINDOW) - bins / 200.0)[None, None]
    response = minimum_phase(log_magnitude)
    torch.testing.assert_close(response.abs().log(), log_magnitude, atol=0.05, rtol=0)
    impulse = torch.fft.irfft(response[0, 0], n=WINDOW)
    assert float(impulse[WINDOW // 2 :].square().sum()) < 1e-3 * float(impulse.square().sum())


def test_each_filter_shapes_its_own_source():
    train = train_at(100.0, 40)
    noise = torch.randn(train.shape, generator=torch.Generator().manual_seed(0))
    quiet, flat = torch.full((1, 40, WINDOW // 2 + 1), -14.0), torch.zeros(1, 40, WINDOW // 2 + 1)
    torch.testing.assert_close(vocode(flat, quiet, train, noise, FRAME), train, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(vocode(quiet, flat, train, noise, FRAME), noise, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("frequency", [70.0, 98.5, 160.0, 240.0, 320.0])
def test_the_tracker_finds_the_pitch_of_a_voice_like_tone(frequency):
    tone = torch.full((1, 60), frequency)
    cycles = phases(tone, FRAME, RATE)[:, :-1].float()
    wave = sum(0.1 / k * torch.cos(2 * torch.pi * k * cycles) for k in range(1, 9))
    wave = wave + 1e-3 * torch.randn(wave.shape, generator=torch.Generator().manual_seed(0))
    found, voiced = track(wave, FRAME, RATE)
    assert voiced[0, 5:-5].all()
    torch.testing.assert_close(found[0, 5:-5], tone[0, 5:-5], rtol=0.01, atol=0)


def test_silence_and_noise_have_no_pitch():
    noise = 0.1 * torch.randn(1, 16_000, generator=torch.Generator().manual_seed(0))
    assert not track(torch.zeros(1, 16_000), FRAME, RATE)[1].any()
    assert float(track(noise, FRAME, RATE)[1].float().mean()) < 0.05
    rumble = 0.3 * torch.sin(2 * math.pi * 20 * torch.arange(16_000) / RATE)[None]
    assert not track(rumble, FRAME, RATE)[1].any()
