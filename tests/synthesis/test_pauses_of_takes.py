"""Pauses in a take: silence in its sound, at the same tokens as without them."""

from collections.abc import Iterator

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.whatif import follow
from pcg.take import Sound, Take

PAUSED = "[pause:0.2] hello, is this one? [pause:1] yes! [pause:0.5][pause:0.25] ... [pause:2]"
SETTINGS = Settings("pcg", theta=0.3, seed=4, temperature=0.6)


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take(PAUSED, SETTINGS, "one")


def parts(take: Take, hop: int) -> Iterator[tuple[np.ndarray, bool]]:
    """The sound between the pauses, and the silence of each (True), as a take's docstring has them."""
    at, said = 0, 0
    for before, seconds in (*take.pauses, (len(take.tokens), 0.0)):
        speech = (before - said) * hop
        yield take.audio[at : at + speech], False
        silence = round(seconds * take.sample_rate)
        yield take.audio[at + speech : at + speech + silence], True
        at, said = at + speech + silence, before
    assert at == len(take.audio)


def test_a_pause_is_silence_and_no_token(synthesizer: Synthesizer, take: Take) -> None:
    hop = synthesizer.voice.codec.hop
    assert synthesizer.script(PAUSED) == [0.2, "hello, is this one?", 1.0, "yes!", 0.5, 0.25, 2.0]
    assert synthesizer.chunks(PAUSED) == ["hello, is this one?", "yes!"]
    assert [seconds for _, seconds in take.pauses] == [0.2, 1.0, 0.5, 0.25, 2.0]
    first, second, *others = [before for before, _ in take.pauses]
    assert first == 0 < second < others[0]
    assert others == [len(take.tokens)] * 3
    assert len(take.audio) == hop * len(take.tokens) + round(3.95 * take.sample_rate)
    heard = [sound for sound, silent in parts(take, hop) if not silent and len(sound)]
    assert all(not sound.any() for sound, silent in parts(take, hop) if silent)
    assert len(heard) == 2
    assert all(np.abs(sound).max() > 0.001 for sound in heard)


def test_tokens_are_those_of_the_parts(synthesizer: Synthesizer, take: Take) -> None:
    """The first part knows nothing of what follows."""
    alone = synthesizer.take("hello, is this one?", SETTINGS, "one")
    count = take.pauses[1][0]
    assert take.tokens[:count] == alone.tokens
    hop = synthesizer.voice.codec.hop
    spoken = next(sound for sound, silent in parts(take, hop) if not silent and len(sound))
    np.testing.assert_array_equal(spoken, alone.audio)
    assert alone.pauses == ()


def test_streamed_it_is_the_same_take(synthesizer: Synthesizer, take: Take) -> None:
    *steps, streamed = synthesizer.speak(PAUSED, SETTINGS, "one", stream=True)
    sounds = [step.samples for step in steps if isinstance(step, Sound)]
    np.testing.assert_array_equal(np.concatenate(sounds), streamed.audio)
    assert next(len(sound) for sound in sounds if not sound.any()) == round(0.2 * take.sample_rate)
    assert (streamed.tokens, streamed.pauses) == (take.tokens, take.pauses)
    assert len(streamed.audio) == len(take.audio)


def test_the_figures_say_where_pauses_are(take: Take) -> None:
    assert take.summary()["pauses"] == [list(pause) for pause in take.pauses]
    assert take.audio_seconds == pytest.approx(len(take.audio) / take.sample_rate)
    assert take.rtf == pytest.approx(take.wall_seconds / take.audio_seconds)


def test_a_take_with_pauses_is_read_again(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both parts come to their ends, it is known where the second starts."""
    takes = (synthesizer.take(PAUSED, SETTINGS.with_(seed=seed), "one") for seed in range(28, 68))
    take = next(each for each in takes if not each.hit_limit)
    path = follow(synthesizer, take)
    assert path.starts == (0, take.pauses[1][0] + 1, len(path.q))
    codes = synthesizer.voice.codec.codebook_size
    monkeypatch.setattr("pcg.synthesis.whatif.MOST_PROBABILITIES", codes * (len(take.tokens) - 1))
    with pytest.raises(InputError, match=f"one of at most {len(take.tokens) - 1} tokens"):
        follow(synthesizer, take)


@pytest.mark.parametrize("family", ["llasa", "neutts"])
def test_every_reader_leaves_pauses_out(request: pytest.FixtureRequest, family: str) -> None:
    speaking: Synthesizer = request.getfixturevalue(family)
    reader = speaking.voice.reader
    assert reader.tokens_for("Hello, [pause:5] you.") == reader.tokens_for("Hello,  you.")
    assert speaking.script("Hello. [pause:5] You.") == ["Hello.", 5.0, "You."]
