"""Reading: what is said for numbers and abbreviations, and which texts are refused."""

import pytest

from pcg.errors import InputError, PCGError
from pcg.text.text import MAX_CHARACTERS, MAX_SPOKEN_CHARACTERS, check_text, cut, normalise, phonemise


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("It's $12.50 at 3:05.", "it's twelve dollars and fifty cents at three oh five."),
        ("It costs £3.50.", "it costs three pounds and fifty pence."),
        ("£3.50, £1.01 or €2?", "three pounds and fifty pence, one pound and one penny or two euros?"),
        ("$12.5 million and $5.999", "twelve point five million dollars and five point nine nine nine dollars"),
        ("2½ cups, ¾ full", "two and one half cups, three quarters full"),
        ("on the 21st of May, 1984", "on the twenty first of may, nineteen eighty four"),
        ("1,234 and 3.14%", "one thousand two hundred and thirty four and three point one four percent"),
        ("Dr. Smith & Mrs. Jones", "doctor smith and missus jones"),
        ("the U.S. team", "the you ess team"),
        ("well-known — café", "well known, cafe"),
        ("Wait... what?!", "wait. what?"),
        ("$1", "one dollar"),
        ("She said no. He wore a col.", "she said no. he wore a col."),
        ("See no. 5 on Mt. Rainier", "see number five on mount rainier"),
        ("9:00", "nine o'clock"),
        (
            "$12,345,678,901,234",
            "twelve trillion three hundred and forty five billion six hundred and seventy eight million "
            "nine hundred and one thousand two hundred and thirty four dollars",
        ),
        (
            "$1234567890123456.05",
            "one two three four five six seven eight nine zero one two three four five six dollars and five cents",
        ),
        ("1234567890123rd", "one two three four five six seven eight nine zero one two third"),
        ("3.14159265358979", "three point one four one five nine two six five three five eight nine seven nine"),
        ("1234567890123:00", "one two three four five six seven eight nine zero one two three: zero"),
    ],
)
def test_text_is_written_out_as_it_is_spoken(written, spoken):
    assert normalise(written) == spoken


@pytest.mark.parametrize(
    "written", ["9" * 400, "$" + "9" * 400, "9" * 400 + "th", "9" * 400 + ".99", "0." + "9" * 400, "9:" * 200]
)
def test_a_number_of_any_length_is_read_digit_by_digit(written):
    assert normalise(written).count("nin") == written.count("9")


def test_phonemes_are_told_apart_and_closed_by_punctuation():
    cat, dog = phonemise("the cat sat."), phonemise("the dog sat.")
    assert cat != dog
    assert cat[-1] == "."
    assert phonemise("cat") == [s for s in phonemise("cat") if s.strip()]


def filled(words, most=MAX_CHARACTERS):
    """As many of the words as a text may have."""
    return (words * (most // len(words))).strip()


LONG_WHEN_SPOKEN = {
    "digits": "9" * MAX_CHARACTERS,
    "a price": "$" + "9" * (MAX_CHARACTERS - 1),
    "prices": filled("$9 "),
    "an ordinal": "9" * (MAX_CHARACTERS - 2) + "th",
    "ordinals": filled("77th "),
    "times": filled("7:77 "),
    "symbols": "a" + "%" * (MAX_CHARACTERS - 1),
    "letters": filled("w "),
    "abbreviations": filled("e.g. "),
}


@pytest.mark.parametrize("text", LONG_WHEN_SPOKEN.values(), ids=LONG_WHEN_SPOKEN)
def test_a_text_is_as_long_as_what_is_said(text):
    with pytest.raises(InputError) as caught:
        check_text(text)
    spoken = len(normalise(text.strip()))
    assert spoken > MAX_SPOKEN_CHARACTERS
    assert str(caught.value) == f"text is '{spoken:,} characters when spoken', but must be at most {MAX_SPOKEN_CHARACTERS:,}."


def test_the_limits_are_what_the_page_and_the_documents_say():
    assert (MAX_CHARACTERS, MAX_SPOKEN_CHARACTERS) == (5_000, 8_000)
    prose = filled("The quick brown fox jumps over the lazy dog. ")
    assert check_text(prose) == prose
    with pytest.raises(InputError, match=r"text is '5,001 characters', but must be 1 to 5,000 characters\."):
        check_text("x" * 5_001)


def test_a_page_of_a_report_is_not_too_long():
    text = (
        "Revenue was $12.5 million for the quarter ended March 31, 2024, up 14% from $10.9 million. Costs rose 7.3% to $8.2 "
        "million. Mr. Smith, 54, who joined in 1998, said at 9:30 that 2025 would bring 120 new jobs, 45 of them in the U.S. "
    )
    assert len(text) > 200
    assert check_text(filled(text, 4_300))


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
        ("7777777", ["seven million seven", "hundred and seventy", "seven thousand seven", "hundred and seventy", "seven"]),
        ("one two 9,9,9,9", ["one two", "nine, nine, nine,", "nine"]),
        ("one two three four. . . .", ["one two three", "four."]),
        ("one two three four ... -- !", ["one two three", "four ..."]),
        ("one", ["one"]),
        ("...", []),
    ],
)
def test_a_text_is_cut_where_it_hurts_least(text, pieces):
    assert cut(text, words_in, 3) == pieces


def test_a_word_that_is_too_long_is_cut_amid():
    assert cut("an abcdefgh or", len, 4) == ["an", "abcd", "efgh", "or"]


@pytest.mark.parametrize("text", ["", "   ", "x" * (MAX_CHARACTERS + 1), "你好，世界", "Привет, мир", "!!! ..."])
def test_bad_text_is_refused_in_one_sentence(text):
    with pytest.raises(InputError) as caught:
        check_text(text)
    message = str(caught.value)
    assert message.startswith("text is")
    assert "\n" not in message
    assert len(message) < 200
