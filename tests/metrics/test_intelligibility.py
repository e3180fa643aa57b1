"""Word and character errors against counts made by hand."""

import pytest

from pcg.errors import InputError
from pcg.metrics.estimate import Estimate
from pcg.metrics.intelligibility import Errors, char_errors, comparable, misheard_words, pooled, spoken_words, word_errors


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors", "length"),
    [
        ("The cat sat on the mat.", "the cat sat on the mat", 0, 6),
        ("The cat sat on the mat.", "the bat sat on mat", 2, 6),
        ("The cat sat.", "the cat sat down there", 2, 3),
        ("The cat sat.", "", 3, 3),
        ("cat", "dogs ran away", 3, 1),
        ("Don't go, please!", "do not go please", 0, 4),
        ("Don't go.", "dont go", 2, 3),
        ("It costs $2.", "it costs two dollars", 0, 3),
        ("Twenty-one men", "twenty one men", 0, 2),
        ("The colour is grey.", "the color is gray", 0, 4),
        ("I cannot come.", "i can not come", 0, 4),
        ("Mr. Smith is alright.", "mister smith is all right", 0, 5),
    ],
)
def test_word_errors(reference: str, hypothesis: str, errors: int, length: int) -> None:
    found = word_errors(reference, hypothesis)
    assert found == Errors(errors, length)
    assert found.rate == errors / length


def test_character_errors_count_spaces() -> None:
    heard = {"a cat": 0, "a bat": 1, "acat": 1, "": 5}
    assert {text: char_errors("A cat.", text) for text in heard} == {text: Errors(count, 5) for text, count in heard.items()}


def test_words_are_compared_as_they_are_said() -> None:
    assert comparable("Oklahoma, OK? Towards the centre.") == "oklahoma okay toward the center"  # variants are whole words
    assert spoken_words("Don't, PLEASE!") == "don't please"
    # Misheard words are marked, and inserted ones belong to none.
    assert misheard_words("The cat sat.", "the bat sat down") == (False, True, False)
    with pytest.raises(InputError, match="reference"):
        word_errors("?!", "anything")


def test_pooling_weighs_by_length() -> None:
    assert pooled([Errors(1, 1), Errors(0, 9)]).value == pytest.approx(0.1)
    assert pooled([Errors(2, 8)]) == Estimate(0.25, 0.25, 0.25)
