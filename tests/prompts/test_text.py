"""Reading: what is said for numbers and abbreviations, and which texts are refused."""

import pytest

from pcg.errors import InputError
from pcg.prompts.text import MAX_CHARACTERS, check_text, normalise, phonemise


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("It's $12.50 at 3:05.", "it's twelve dollars and fifty cents at three oh five."),
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
    ],
)
def test_text_is_written_out_as_it_is_spoken(written, spoken):
    assert normalise(written) == spoken


def test_phonemes_are_told_apart_and_closed_by_punctuation():
    cat, dog = phonemise("the cat sat."), phonemise("the dog sat.")
    assert cat != dog
    assert cat[-1] == "."
    assert phonemise("cat") == [s for s in phonemise("cat") if s.strip()]


@pytest.mark.parametrize("text", ["", "   ", "x" * (MAX_CHARACTERS + 1), "你好，世界", "Привет, мир", "!!! ..."])
def test_bad_text_is_refused_in_one_sentence(text):
    with pytest.raises(InputError) as caught:
        check_text(text)
    message = str(caught.value)
    assert message.startswith("text is")
    assert "\n" not in message
    assert len(message) < 200
