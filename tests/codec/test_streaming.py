"""Audio that comes in chunks is the audio that comes at once, for the price of a bounded window."""

import numpy as np
import pytest
import torch

from pcg.audio import fade_ends
from pcg.codec.streaming import FUTURE_TOKENS, PAST_TOKENS, AudioStream
from pcg.synthesis.synthesizer import CONTEXT_TOKENS

PUSH_SIZES = (1, 3, 7, 10_000)


class Memoryless:
    """A codec whose codes sound alone: whatever window it is decoded in, the samples are the same."""

    sample_rate, hop, codebook_size = 8_000, 100, 256

    def __init__(self):
        self.decoded = []

    def decode(self, codes):
        self.decoded.append(len(codes))
        return (codes.float() / self.codebook_size).repeat_interleave(self.hop)

    def render(self, codes, anchor):
        return self.decode(codes), torch.zeros(len(codes) + 1)


class Moody(Memoryless):
    """A codec whose every decode is at another level: full scale, and then silence."""

    def decode(self, codes):
        super().decode(codes)
        return torch.full((len(codes) * self.hop,), float(len(self.decoded) % 2))


@pytest.fixture(scope="module")
def speaker(shipped):
    return next(iter(shipped.voice.references.values()))


@pytest.fixture(scope="module")
def tokens(shipped):
    """Two known voices one after the other: ten seconds of real speech."""
    return torch.cat([r.codes for r in list(shipped.voice.references.values())[:2]]).tolist()


@pytest.fixture(scope="module")
def at_once(shipped, speaker, tokens):
    return shipped.decode(tokens, speaker)


def chunks_of(stream, tokens, size):
    return [*(stream.push(tokens[i : i + size]) for i in range(0, len(tokens), size)), stream.finish()]


def error_db(heard, wanted):
    """Energy of the difference over the energy of `wanted`."""
    return 10 * np.log10(np.sum((heard - wanted) ** 2) / np.sum(wanted**2) + 1e-20)


@pytest.mark.parametrize("size", PUSH_SIZES)
def test_the_chunks_are_the_one_shot_decode(shipped, speaker, tokens, at_once, size):
    """Bound -45 dB; see FUTURE_TOKENS for what other look-aheads give."""
    chunks = chunks_of(AudioStream(shipped.voice.codec, speaker.codes[-CONTEXT_TOKENS:]), tokens, size)
    heard, rate = np.concatenate(chunks), shipped.voice.codec.sample_rate
    assert all(c.dtype == np.float32 for c in chunks)
    assert len(heard) == len(at_once)
    assert error_db(heard[:rate], at_once[:rate]) < -45
    assert error_db(heard[rate:], at_once[rate:]) < -45
    assert heard[[0, -1]].tolist() == [0, 0]
    for end in (slice(80), slice(-80, None)):
        np.testing.assert_allclose(heard[end], at_once[end], atol=1e-4)


def test_without_context_and_look_ahead_it_is_not(shipped, speaker, tokens, at_once):
    """The negative control of the test above: the same codes and the same bound."""
    stream = AudioStream(shipped.voice.codec, speaker.codes[-CONTEXT_TOKENS:], past=0, future=0)
    heard = np.concatenate(chunks_of(stream, tokens, 7))
    rate = shipped.voice.codec.sample_rate
    assert len(heard) == len(at_once)
    assert error_db(heard[rate:], at_once[rate:]) > -20


def test_the_first_sound_comes_with_the_look_ahead_and_no_earlier(shipped, speaker, tokens):
    stream = AudioStream(shipped.voice.codec, speaker.codes[-CONTEXT_TOKENS:])
    codec = shipped.voice.codec
    at_once = round(0.2 * codec.sample_rate / codec.hop)
    first = at_once + FUTURE_TOKENS
    assert [len(stream.push([t])) for t in tokens[:first]] == [0] * (first - 1) + [at_once * codec.hop]


@pytest.mark.parametrize("count", [1, 5, 11, 17])
def test_an_utterance_may_be_shorter_than_a_chunk(shipped, speaker, tokens, count):
    heard = np.concatenate(chunks_of(AudioStream(shipped.voice.codec, speaker.codes[-CONTEXT_TOKENS:]), tokens[:count], 3))
    wanted = shipped.decode(tokens[:count], speaker)
    assert len(heard) == len(wanted)
    assert error_db(heard, wanted) < -45


def test_no_codes_are_no_samples(shipped, speaker):
    stream = AudioStream(shipped.voice.codec, speaker.codes[-CONTEXT_TOKENS:])
    assert len(stream.push([])) == 0
    assert len(stream.finish()) == 0
    assert len(AudioStream(shipped.voice.codec, torch.zeros(0, dtype=torch.int64)).finish()) == 0


@pytest.mark.parametrize("size", PUSH_SIZES)
@pytest.mark.parametrize("context", [0, 3, 50])
def test_any_codec_streams(size, context):
    codec, codes = Memoryless(), torch.randint(256, (200,), generator=torch.Generator().manual_seed(0))
    heard = np.concatenate(chunks_of(AudioStream(codec, codes[:context]), codes.tolist(), size))
    np.testing.assert_allclose(heard, fade_ends(codec.decode(codes).numpy(), codec.sample_rate), atol=1e-6)


def test_chunks_go_over_into_each_other():
    """However unlike two decodes are, they meet in a ramp of ten milliseconds; without a look-ahead there is nothing to mix."""
    steep = [
        np.abs(np.diff(np.concatenate(chunks_of(AudioStream(Moody(), torch.zeros(0).long(), future=n), [0] * 300, 1)))).max()
        for n in (FUTURE_TOKENS, 1, 0)
    ]
    assert max(steep[:2]) < 0.03
    assert steep[2] == 1


def test_a_chunk_costs_the_same_however_long_the_utterance():
    codec = Memoryless()
    chunks_of(AudioStream(codec, torch.zeros(50, dtype=torch.int64), chunk_seconds=0.5), [0] * 4_000, 1)
    assert len(codec.decoded) == pytest.approx(100, abs=2)
    assert max(codec.decoded) <= PAST_TOKENS + 40 + FUTURE_TOKENS
