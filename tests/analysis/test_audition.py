from pathlib import Path

import numpy as np
import pytest
import torch

from pcg.analysis.audition import BANDS, FULL_PEAK, REPEATS, Audition, alone, band_frequencies, guarded, in_context
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Take
from pcg.text.prompt import Reference

THETA = 0.3


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def speaker(synthesizer: Synthesizer) -> Reference:
    return synthesizer.voice.references["one"]


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take("The quick brown fox.", Settings("pcg", theta=THETA), "one")


def tone(peak: float) -> Audition:
    return Audition(0, (peak * np.sin(np.arange(16_000) / 5)).astype(np.float32), 16_000, 640)


def test_alone_a_token_is_held_and_does_not_clip(synthesizer: Synthesizer, speaker: Reference) -> None:
    codec = synthesizer.voice.codec
    for token in (0, 17, codec.codebook_size - 1):
        heard = alone(codec, token, speaker.codes)
        assert (heard.token, heard.sample_rate, heard.positions) == (token, codec.sample_rate, ())
        assert heard.samples.shape == (REPEATS * codec.hop,)
        assert np.abs(heard.samples).max() <= 1
        assert heard.mel.shape == (REPEATS * codec.hop // 160, BANDS)
    assert len(alone(codec, 3, speaker.codes, repeats=2).samples) == 2 * codec.hop


class Steps:
    """A codec whose sound is the code itself, so that it can be seen which codes are heard."""

    sample_rate, hop, codebook_size = 16_000, 640, 100

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return codes.float().div(self.codebook_size).repeat_interleave(self.hop)


def test_alone_the_voice_before_is_not_heard() -> None:
    samples = alone(Steps(), 50, torch.full((20,), 99)).samples
    assert np.unique(samples[80:-80]).tolist() == [0.5]
    assert samples.max() == 0.5


@pytest.mark.parametrize("token", [-1, 64, 2.5, True, None])
def test_what_is_no_speech_code_is_refused(token: object, synthesizer: Synthesizer, speaker: Reference) -> None:
    with pytest.raises(InputError, match="must be a whole number from 0 to 63"):
        alone(synthesizer.voice.codec, token, speaker.codes)
    with pytest.raises(InputError):
        in_context(synthesizer, [1, 2], synthesizer.groups(THETA), token, speaker, token=1)


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


def test_the_other_of_a_pair_stands_in_the_same_places(synthesizer: Synthesizer, speaker: Reference, take: Take) -> None:
    groups, anchor = synthesizer.groups(THETA), take.tokens[4]
    first = in_context(synthesizer, take.tokens, groups, anchor, speaker)
    second = in_context(synthesizer, take.tokens, groups, anchor, speaker, token=(anchor + 1) % 61)
    assert second.positions == first.positions
    assert second.stretches[0] == pytest.approx((0.04 * first.positions[0], 0.04 * (first.positions[0] + 1)))
    assert not np.array_equal(first.samples, second.samples)


def test_a_token_that_stands_alone_replaces_itself_only(synthesizer: Synthesizer, speaker: Reference, take: Take) -> None:
    token = take.tokens[2]
    heard = in_context(synthesizer, take.tokens, synthesizer.groups(1.0), token, speaker)
    assert heard.positions == tuple(i for i, other in enumerate(take.tokens) if other == token)
    assert np.array_equal(heard.samples, take.audio)


def test_without_a_member_there_is_nothing_to_hear(synthesizer: Synthesizer, speaker: Reference) -> None:
    heard = in_context(synthesizer, [1, 2, 3], synthesizer.groups(1.0), 4, speaker)
    assert (heard.positions, len(heard.samples), heard.mel.shape) == ((), 0, (0, BANDS))


def test_one_gain_for_all_keeps_them_below_full_scale_and_their_levels_apart() -> None:
    loud, soft = guarded([tone(1.0), tone(0.5)])
    assert np.abs(loud.samples).max() == pytest.approx(FULL_PEAK, abs=1e-3)
    assert loud.level - soft.level == pytest.approx(20 * np.log10(2), abs=1e-3)
    assert np.array_equal(guarded([tone(0.5)])[0].samples, tone(0.5).samples)
    assert guarded([]) == ()


def test_silence_is_known() -> None:
    assert not tone(0.1).silent
    assert tone(0.1).level == pytest.approx(-23, abs=0.1)
    assert tone(0.001).silent
    assert tone(0.0).level == -np.inf


def test_the_mel_shows_a_tone_in_its_band() -> None:
    picture, frequencies = tone(0.5).mel, band_frequencies(16_000)
    assert frequencies[picture[50].argmax()] == pytest.approx(16_000 / (10 * np.pi), rel=0.05)
    assert (frequencies[0] > 0, frequencies[-1] < 8000, len(frequencies)) == (True, True, BANDS)
