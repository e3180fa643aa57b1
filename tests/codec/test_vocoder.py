"""Pulses, filters and spectra of the vocoder, and the pitch that drives it."""

import math

import pytest
import torch

from pcg.codec.embedded import (
    AHEAD,
    BEHIND,
    PitchHead,
    hertz,
    minimum_phase,
    overlap_add,
    phases,
    pulses,
    short_spectra,
    vocode,
)
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


def test_phases_go_on_where_they_stopped():
    tone = torch.tensor([[100.0, 120.0, 90.0, 200.0]])
    whole = phases(tone, FRAME, RATE)
    assert whole.shape == (1, 4 * FRAME + 1)
    later = whole[:, 2 * FRAME] + phases(tone[:, 2:], FRAME, RATE)
    torch.testing.assert_close(later, whole[:, 2 * FRAME :])
    assert float(whole[0, -1]) == pytest.approx(float(tone.sum()) * FRAME / RATE)


def test_a_filter_of_minimum_phase_keeps_its_magnitude_and_looks_back_only():
    bins = torch.arange(WINDOW // 2 + 1)
    log_magnitude = (1.5 * torch.cos(2 * math.pi * 3 * bins / WINDOW) - bins / 200.0)[None, None]
    response = minimum_phase(log_magnitude)
    torch.testing.assert_close(response.abs().log(), log_magnitude, atol=0.05, rtol=0)
    impulse = torch.fft.irfft(response[0, 0], n=WINDOW)
    assert float(impulse[WINDOW // 2 :].square().sum()) < 1e-3 * float(impulse.square().sum())


def test_spectra_add_up_to_the_wave_again():
    wave = torch.randn(2, 4 * WINDOW, generator=torch.Generator().manual_seed(0))
    again = overlap_add(torch.fft.irfft(short_spectra(wave, WINDOW, FRAME), n=WINDOW), FRAME)
    torch.testing.assert_close(again, wave, atol=1e-4, rtol=1e-3)


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


def test_a_wave_without_a_peak_has_no_pitch():
    rumble = 0.3 * torch.sin(2 * math.pi * 20 * torch.arange(16_000) / RATE)[None]
    assert not track(rumble, FRAME, RATE)[1].any()


def test_the_pitch_of_a_code_depends_on_its_neighbourhood_only():
    torch.manual_seed(0)
    head, values, at = PitchHead(4, 16, 4).eval(), torch.randn(1, 90, 4), 50
    here = slice(4 * at, 4 * at + 4)
    with torch.no_grad():
        wanted = head(values)[0, here]
        for changed, same in ((at - BEHIND, False), (at - BEHIND - 1, True), (at + AHEAD, False), (at + AHEAD + 1, True)):
            other = values.clone()
            other[0, changed] += 5.0
            assert torch.equal(head(other)[0, here], wanted) == same
    assert hertz(torch.tensor([-9.0, 7.0, 20.0])).tolist() == [40.0, 128.0, 500.0]
