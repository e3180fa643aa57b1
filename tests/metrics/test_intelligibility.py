"""Word and character errors against counts made by hand, and the offline judge on a recording and on noise."""

import shutil
from functools import cache

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.metrics.estimate import Estimate
from pcg.metrics.intelligibility import Errors, PocketSphinx, char_errors, comparable, homophone_errors, pooled, word_errors
from pcg.metrics.recording import JUDGE_RATE, for_judges

SENTENCE = "We walked along the river until it started to rain."
needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")


@cache
def recording(voice: str = "rms", text: str = SENTENCE) -> np.ndarray:
    from pcg.training.data.corpus import speak

    return speak(voice, text)


def noise() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.1, JUDGE_RATE).astype(np.float32)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors", "length"),
    [
        ("The cat sat on the mat.", "the cat sat on the mat", 0, 6),
        ("The cat sat on the mat.", "the bat sat on mat", 2, 6),
        ("The cat sat.", "the cat sat down there", 2, 3),
        ("The cat sat.", "", 3, 3),
        ("one", "two three four", 3, 1),
        ("Don't go, please!", "don't go please", 0, 3),
        ("Don't go.", "dont go", 1, 2),
        ("It costs $2.", "it costs two dollars", 0, 4),
        ("Twenty-one men", "twenty one men", 0, 3),
        ("The colour is grey.", "the color is gray", 0, 4),
        ("I cannot come.", "i can not come", 0, 3),
        ("Mr. Smith is alright.", "mister smith is all right", 0, 5),
    ],
)
def test_word_errors(reference: str, hypothesis: str, errors: int, length: int) -> None:
    found = word_errors(reference, hypothesis)
    assert found == Errors(errors, length)
    assert found.rate == errors / length


def test_character_errors_count_spaces() -> None:
    assert char_errors("A cat.", "a cat") == Errors(0, 5)
    assert char_errors("A cat.", "a bat") == Errors(1, 5)
    assert char_errors("A cat.", "acat") == Errors(1, 5)
    assert char_errors("A cat.", "") == Errors(5, 5)


def test_variants_are_whole_words() -> None:
    assert comparable("Oklahoma, OK? Towards the centre.") == "oklahoma okay toward the center"


def test_a_reference_needs_a_word() -> None:
    with pytest.raises(InputError, match="reference"):
        word_errors("?!", "anything")


def test_pooling_weighs_by_length() -> None:
    estimate = pooled([Errors(1, 1), Errors(0, 9)])
    assert estimate.value == pytest.approx(0.1)
    assert pooled([Errors(2, 8)]) == Estimate(0.25, 0.25, 0.25)


def test_judges_hear_16_khz_within_full_scale() -> None:
    heard = for_judges(np.full(24_000, 1.5), 24_000)
    assert (heard.dtype, len(heard)) == (np.float32, JUDGE_RATE)
    assert heard.max() <= 1.0


@needs_flite
def test_pocketsphinx_understands_a_recording_and_not_the_same_backwards() -> None:
    judge = PocketSphinx()
    forwards, backwards = judge.transcribe([recording(), recording()[::-1]], JUDGE_RATE)
    assert word_errors(SENTENCE, forwards).rate <= 0.2
    assert word_errors(SENTENCE, backwards).rate > 0.8
    assert judge.name.startswith("pocketsphinx 5")


@pytest.mark.slow
@needs_flite
def test_pocketsphinx_forgets_what_came_before() -> None:
    judge = PocketSphinx()
    borderline = recording("slt", "A vague hope of treasure led both boys ashore.")
    first, _, again = judge.transcribe([borderline, noise(), borderline], JUDGE_RATE)
    assert first == again


def test_pocketsphinx_does_not_find_the_words_in_noise_or_silence() -> None:
    silence = [np.zeros(JUDGE_RATE, np.float32), np.zeros(0, np.float32)]
    heard = PocketSphinx().transcribe([noise(), *silence], JUDGE_RATE)
    assert word_errors(SENTENCE, heard[0]).rate > 0.8
    assert heard[1:] == ["", ""]


@pytest.mark.parametrize(
    ("heard", "count"),
    [("their knight to books", 3), ("their dog two books", 1), ("there night two books", 0), ("night two books", 0)],
)
def test_words_that_sound_alike_are_counted(heard: str, count: int) -> None:
    assert homophone_errors("there night two books", heard) == count
