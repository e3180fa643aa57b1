"""Reading: what is spoken for a text, which texts are refused, and where a long one is cut."""

import re
from pathlib import Path

import pytest

from pcg.errors import InputError, PCGError
from pcg.text.reading import (
    MAX_CHARACTERS,
    MAX_PHONEMES,
    check_text,
    cut,
    normalise,
    phonemise,
    plain_words,
    unread,
)  # fmt: skip

CASES = [line.split("\t") for line in Path(__file__).with_name("cases.tsv").read_text(encoding="utf-8").splitlines()[1:]]


def sounds(text):
    """The phonemes of a text without stress, breaks and punctuation; "twenty-one" and "twenty one" are read alike."""
    spoken = "".join(phonemise(normalise(text)))
    return re.sub(r"[^\w]|[ˈˌ]", "", spoken).replace("ᵊ", "ə").replace("ᵻ", "ɪ").replace("T", "t")


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[case[0][:24] for case in CASES])
def test_text_is_read_as_a_person_would(written, spoken):
    assert sounds(written.replace("\\n", "\n")) in [sounds(reading) for reading in spoken.split("|")]


def test_other_readings_are_told_apart():
    assert sounds("The lead pipe was old.") != sounds("They lead us to the pipe.")
    assert sounds("It costs $5.2M.") != sounds("It costs $5.2K.")
    assert sounds("We [read](/ɹˈid/) it.") != sounds("We [read](/ɹˈɛd/) it.")


@pytest.mark.parametrize("written", ["9" * 400, "$" + "9" * 400, "0." + "9" * 400])
def test_a_number_of_any_length_is_read_digit_by_digit(written):
    assert "".join(phonemise(normalise(written))).count("nˈIn") == written.count("9")


@pytest.mark.parametrize("text", ["a@" * 2500, "x" * 5000, "9:" * 2500])
def test_a_long_word_takes_no_long_time(text):
    """The reader's time grows with the cube of a word's length: 5,000 letters in one word took minutes."""
    assert all(len(word) <= 31 for word in normalise(text).split())


def test_letters_that_nobody_reads_are_named_and_left_out():
    assert (unread("Two words 日本 in between."), unread("The café was naïve.")) == ("日本", "")
    assert plain_words("Say [tomato](/təmˈɑtO/) [pause:1] now.") == "Say tomato   now."


def filled(words, most=MAX_CHARACTERS):
    """As many of the words as a text may have."""
    return (words * (most // len(words))).strip()


@pytest.mark.parametrize("text", ["9" * MAX_CHARACTERS, filled("7:77 ")])
def test_a_text_is_as_long_as_what_is_said(text):
    with pytest.raises(InputError, match=f"phonemes when spoken', but must be at most {MAX_PHONEMES:,}"):
        check_text(text)


def test_the_limits_are_what_the_page_and_the_documents_say():
    assert (MAX_CHARACTERS, MAX_PHONEMES) == (5_000, 8_000)
    prose = filled("The quick brown fox jumps over the lazy dog. ")
    assert check_text(prose) == prose


def words_in(text):
    """A length in words, which like that of a real reader is no length where nothing is said."""
    words = [word for word in normalise(text).split() if word[0].isalpha()]
    if not words:
        raise PCGError("text must hold a word.")
    return len(words)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("one two. three four", ["one two.", "three four"]),
        ("one two three, four", ["one two three,", "four"]),
        ("one two three four", ["one two three", "four"]),
        ("one two three four ... -- !", ["one two three", "four ..."]),
        ("...", []),
    ],
)
def test_a_text_is_cut_where_it_hurts_least(text, pieces):
    assert cut(text, words_in, 3) == pieces
    assert cut("an abcdefgh or", len, 4) == ["an", "abcd", "efgh", "or"]


@pytest.mark.parametrize("text", ["   ", "x" * (MAX_CHARACTERS + 1), "你好，世界", "!!! ..."])
def test_bad_text_is_refused_in_one_sentence(text):
    with pytest.raises(InputError) as caught:
        check_text(text)
    assert str(caught.value).startswith("text is")
    assert "\n" not in str(caught.value)
