"""Pauses in a text: which are taken, which are refused, and that no word is made of them."""

import pytest

from pcg.errors import InputError
from pcg.metrics.intelligibility import comparable, word_errors
from pcg.text.reading import at_pauses, check_text, normalise, without_pauses


@pytest.mark.parametrize("mark", ["[pause:0.2]", "[pause:2.50]", "[pause:5]"])
def test_a_pause_of_a_fifth_to_five_seconds_is_taken(mark):
    text = f"Hello. {mark} Goodbye."
    assert check_text(text) == text
    assert list(at_pauses(text)) == ["Hello.", float(mark[7:-1]), "Goodbye."]


@pytest.mark.parametrize(
    "mark",
    [
        "[pause:0.19]", "[pause:5.01]", "[pause:-1]", "[pause:nan]", "[pause:1,5]", "[pause]", "[pause: 1]", "[Pause:1]",
        "[pause:１]", "[pause:0." + "3" * 4_000 + "]", "[pause:1",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_pause_is_one_sentence(mark):
    with pytest.raises(InputError) as caught:
        check_text(f"Hello. {mark} Goodbye.")
    assert str(caught.value).startswith("pause is ")
    assert str(caught.value).endswith(", but must be [pause:0.2] to [pause:5], in seconds.")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("text", ["He took a pause: 1 minute.", "[pauses: 3] Hello."])
def test_the_word_is_still_a_word(text):
    assert "pause" in normalise(check_text(text))


def test_twenty_pauses_are_enough():
    assert check_text("Yes. [pause:1] " * 20)
    with pytest.raises(InputError, match=r"text is 'one of 21 pauses', but must be one of at most 20\."):
        check_text("Yes. [pause:1] " * 21)
    with pytest.raises(InputError, match="English"):
        check_text("[pause:1] ...")


def test_a_pause_is_no_word_for_readers_and_judges():
    assert normalise("One[pause:1]two. [pause:0.5] Three.") == "One two. Three."
    assert without_pauses("[pause:1]Hello.").strip() == "Hello."
    assert comparable("Hello, [pause:1] you.") == "hello you"
    found = word_errors("The sun [pause:0.5] was warm. [pause:5]", "the sun was warm")
    assert (found.errors, found.length) == (0, 4)
