from types import SimpleNamespace

import librosa
import numpy as np
import pytest
import torch

from pcg.groups.audition import (
    BANDS,
    FULL_PEAK,
    REPEATS,
    Audition,
    alone,
    guarded,
    in_context,
    log_mel_db,
    mel_distance,
    sounds_like,
)
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.take import Take
from pcg.text.prompt import Reference

THETA = 0.3


@pytest.fixture(scope="module")
def speaker(synthesizer: Synthesizer) -> Reference:
    return synthesizer.voice.references["one"]


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take("The quick brown fox.", Settings("pcg", theta=THETA), "one")


def tone(peak: float) -> Audition:
    return Audition(0, (peak * np.sin(np.arange(16_000) / 5)).astype(np.float32), 16_000)


def test_alone_a_token_is_held_and_does_not_clip(synthesizer: Synthesizer, speaker: Reference) -> None:
    codec = synthesizer.voice.codec
    for token in (0, 17, codec.codebook_size - 1):
        heard = alone(codec, token, speaker.codes)
        assert (heard.token, heard.sample_rate, heard.positions) == (token, codec.sample_rate, ())
        assert heard.samples.shape == (REPEATS * codec.hop,)
        assert np.abs(heard.samples).max() <= 1


def test_alone_the_voice_before_is_not_heard() -> None:
    """By a codec whose sound is the code itself, so that it can be seen which codes are heard."""
    steps = SimpleNamespace(sample_rate=16_000, hop=640, codebook_size=100)
    steps.decode = lambda codes: codes.float().div(100).repeat_interleave(640)
    samples = alone(steps, 50, torch.full((20,), 99)).samples
    assert np.unique(samples[80:-80]).tolist() == [0.5]
    assert samples.max() == 0.5


def test_in_context_exactly_the_members_of_the_group_are_replaced(
    synthesizer: Synthesizer, speaker: Reference, take: Take
) -> None:
    groups = synthesizer.groups(THETA)
    many = 0
    for anchor in sorted(set(take.tokens))[:5]:
        members = set(groups.members_of(int(groups.group_of_centre[anchor])).tolist())
        heard = in_context(synthesizer, take.tokens, groups, anchor, speaker)
        assert heard.positions == tuple(i for i, token in enumerate(take.tokens) if token in members)
        many += len({take.tokens[p] for p in heard.positions}) > 1
    assert many, "no group of this voice holds two of the tokens"
    replaced = [anchor if token in members else token for token in take.tokens]
    assert np.array_equal(heard.samples, synthesizer.decode(replaced, speaker))


def test_one_gain_for_all_keeps_them_below_full_scale_and_their_levels_apart() -> None:
    loud, soft = guarded([tone(1.0), tone(0.5)])
    assert np.abs(loud.samples).max() == pytest.approx(FULL_PEAK, abs=1e-3)
    assert np.abs(loud.samples).max() == pytest.approx(2 * np.abs(soft.samples).max(), rel=1e-3)
    assert np.array_equal(guarded([tone(0.5)])[0].samples, tone(0.5).samples)
    assert guarded([]) == ()


def test_the_mel_shows_a_tone_in_its_band_and_distances_are_in_decibels_of_common_frames() -> None:
    picture, frequencies = log_mel_db(tone(0.5).samples, 16_000), librosa.mel_frequencies(BANDS + 2, fmin=0, fmax=8000)[1:-1]
    assert picture.shape == (100, BANDS)
    assert frequencies[picture[50].argmax()] == pytest.approx(16_000 / (10 * np.pi), rel=0.05)
    assert log_mel_db(np.zeros(10), 16_000).shape == (0, BANDS)
    noise = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    assert mel_distance(noise, noise, 16_000) == mel_distance(noise, noise[:10], 16_000) == 0
    assert mel_distance(noise, noise * np.float32(10**0.3), 16_000) == pytest.approx(6, abs=0.01)
    assert mel_distance(noise, noise[: 16_000 // 2], 16_000) < 0.2 < mel_distance(noise, noise[::-1].copy(), 16_000)


def test_the_shipped_codes_sound_like_what_is_spoken_with_them():
    """A vowel is voiced, an s is noise, and what stands between words is silence: by the codec's own reading of such sounds."""
    codec, time = load_codec(EMBEDDED / "codec"), torch.arange(16_000) / 16_000
    vowel = sum(0.2 / n * torch.sin(2 * torch.pi * 120 * n * time) for n in range(1, 12))
    noise = torch.randn(16_000, generator=torch.Generator().manual_seed(0))
    hiss = 0.2 * (noise[1:] - noise[:-1]).diff(prepend=torch.zeros(1))
    for wave, sound in ((vowel, "voiced"), (hiss, "noise")):
        tokens = codec.encode(wave)[10:-10].tolist()
        silence = codec.encode(torch.zeros(16_000))[10:-10].tolist()
        heard = sounds_like(codec, [*tokens, *silence])
        assert sum(each == sound for each in heard[: len(tokens)]) > 0.8 * len(tokens)
        assert set(heard[len(tokens) :]) == {"silence"}
