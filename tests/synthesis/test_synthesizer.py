"""From text to a Take with the tiny voice."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pcg.errors import AssetError, InputError
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Round, Sound, Take
from pcg.text.reading import MAX_CHARACTERS, check_text

TEXT = "hello, is this one sentence?"


WORST = {
    "digits": "9" * 1_500,
    "a price": "$" + "9" * 1_500,
    "an ordinal": "9" * 1_500 + "th",
    "symbols": "a" + "%" * 700,
    "letters": "q " * 1_900,
    "one word": "x" * 2_000,
    "commas": "a," * (MAX_CHARACTERS // 2),
    "abbreviations": "approx. " * 560,
    "prose": "The quick brown fox, it is said, jumps over the lazy dog. " * 86,
    "an ending": "the quick brown fox jumps over the lazy dog and " * 9 + "yes . . . !",
}


@pytest.mark.parametrize(
    ("name", "family"), [*((name, "embedded") for name in WORST), ("prose", "llasa"), ("an ending", "neutts")]
)
def test_no_piece_of_a_text_is_longer_than_the_voices_longest(request, synthesizer, family, name):
    text = WORST[name]
    speaking = synthesizer if family == "embedded" else request.getfixturevalue(family)
    reader, pieces = speaking.voice.reader, speaking.chunks(check_text(text))
    assert all(0 < reader.tokens_for(piece) <= reader.chunk_tokens for piece in pieces)
    assert sum(map(reader.tokens_for, pieces)) >= 0.9 * reader.tokens_for(text)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_yields_its_rounds_and_then_the_take(synthesizer, method):
    *rounds, take = synthesizer.speak(TEXT, Settings(method=method, theta=0.3, seed=3), "one")
    assert all(isinstance(r, Round) for r in rounds)
    assert isinstance(take, Take)
    assert take.rounds == tuple(rounds)
    assert len(take.tokens) == len(take.kinds) == len(take.group_sizes)
    assert len(take.audio) == len(take.tokens) * synthesizer.voice.codec.hop
    assert np.isfinite(take.audio).all()
    assert np.abs(take.audio).max(initial=0) <= 1
    assert take.wall_seconds * 1e3 >= sum(r.draft_ms + r.verify_ms + r.rule_ms for r in rounds)


def test_the_trace_explains_every_token(synthesizer):
    take = synthesizer.take(TEXT, Settings(method="pcg", theta=0.3, seed=5), "one")
    for step in take.rounds:
        assert len(step.drafted) == 3
        assert step.accepted == sum(t.accepted for t in step.tests) or step.ended or take.hit_limit
        for test, token in zip(step.tests, step.drafted, strict=False):
            assert test.token == token
            assert test.accepted == (test.coin < test.ratio)
            assert 0 <= test.mass_p <= 1 + 1e-6
            assert test.group_size >= 1
    assert {"accepted", "resampled"} <= set(take.kinds)


def test_the_figures_follow_their_definitions(synthesizer):
    take = synthesizer.take(TEXT, Settings(method="sd", seed=1), "one")
    accepted = sum(r.accepted for r in take.rounds)
    assert take.acceptance_rate == accepted / (3 * len(take.rounds))
    assert take.mean_acceptance_length == 1 + accepted / len(take.rounds)
    assert sum(take.acceptance_by_position) * len(take.rounds) == pytest.approx(accepted, abs=1)
    assert math.isclose(take.rtf, take.wall_seconds / take.audio_seconds)


@pytest.mark.parametrize("penalty", [1.0, 1.6])
def test_a_repetition_penalty_is_seen_by_draft_and_target_alike(synthesizer, tmp_path, penalty):
    """The target drafts for itself: a token fails only where one of the two does not see the penalty."""
    twins = Synthesizer(replace(synthesizer.voice, draft=synthesizer.voice.target), tmp_path)
    for seed in range(3):
        take = twins.take(TEXT, Settings("sd", repetition_penalty=penalty, seed=seed), "one")
        assert take.acceptance_of_tested == 1
        assert take.drafted > 5


def test_a_callers_own_rule_takes_the_place_of_the_methods(synthesizer):
    def never(drafted, p, q, coins):
        from pcg.rules import Verdict
        from pcg.sampling import draw

        return Verdict(0, draw(q[0], coins.bonus), "resampled", ())

    take = synthesizer.take(TEXT, Settings(method="sd"), "one", rule=never)
    assert take.acceptance_rate == 0


def test_a_streamed_take_is_the_take_in_pieces(synthesizer):
    settings = Settings(seed=2)
    steps = list(synthesizer.speak(TEXT, settings, "one", stream=True))
    whole = synthesizer.take(TEXT, settings, "one")
    heard = np.concatenate([step.samples for step in steps if isinstance(step, Sound)])
    assert isinstance(steps[-1], Take)
    np.testing.assert_array_equal(heard, steps[-1].audio)
    assert steps[-1].tokens == whole.tokens
    assert heard.shape == whole.audio.shape
    rounds_before_sound = [isinstance(step, Sound) for step in steps].index(True)
    assert rounds_before_sound < len(whole.rounds)


def test_closing_the_generator_stops_the_work(synthesizer):
    steps = synthesizer.speak(TEXT, Settings(), "one")
    next(steps)
    steps.close()
    with pytest.raises(StopIteration):
        next(steps)


def test_unknown_voices_and_damaged_files_are_named(synthesizer, tiny_voice_folder, tmp_path):
    import shutil

    with pytest.raises(InputError, match="one, two"):
        synthesizer.take(TEXT, Settings(), "nobody")
    with pytest.raises(InputError, match="model"):
        load_voice(str(tmp_path / "nothing"))
    for victim in ("voice.json", "target/model.safetensors", "draft/config.json", "codec/model.safetensors"):
        folder = tmp_path / victim.replace("/", "-")
        shutil.copytree(tiny_voice_folder, folder)
        content = (folder / victim).read_bytes()
        (folder / victim).write_bytes(content[: len(content) // 2])
        with pytest.raises(AssetError) as caught:
            load_voice(str(folder))
        assert "\n" not in str(caught.value)
        (folder / victim).unlink()
        with pytest.raises(AssetError):
            load_voice(str(folder))
