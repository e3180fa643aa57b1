"""The judging sentences: as many as promised, plain, distinct, and holding every sound of English in the balanced part."""

import re
from collections import Counter
from pathlib import Path

import pytest

from pcg.errors import AssetError, InputError
from pcg.metrics.sentences import SECTIONS, read_sentences
from pcg.text.text import normalise, phonemise


def test_sections_have_their_sizes_and_no_sentence_twice() -> None:
    assert [len(read_sentences(s)) for s in SECTIONS] == [60, 40, 20]
    assert read_sentences() == read_sentences(*SECTIONS)
    assert len({normalise(s) for s in read_sentences()}) == 120


def test_sentences_are_short_and_plain() -> None:
    for sentence in read_sentences():
        assert re.fullmatch(r"[A-Z][A-Za-z', ]+[.?]", sentence), sentence
        assert 5 <= len(sentence.split()) <= 14, sentence
        assert normalise(sentence) == sentence.lower(), sentence


def test_the_balanced_ones_hold_every_sound() -> None:
    counts = Counter(re.sub("[ˈˌ]", "", p) for s in read_sentences("balanced") for p in phonemise(normalise(s)))
    assert all(counts[p] >= 4 for p in "θ ð ʃ ʒ tʃ dʒ ŋ ʊ ɔɪ aʊ j w h v z f ɡ".split())


def test_an_unknown_section_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="balanced"):
        read_sentences("hard")
    with pytest.raises(AssetError, match=r"none\.txt"):
        read_sentences(path=tmp_path / "none.txt")
