"""The test set: enough sentences of every kind, evenly spread; and LibriTTS by the papers' protocol, on a miniature of it."""

import json
import re
from collections import Counter

import numpy as np
import pytest
import soundfile

from pcg.errors import AssetError, InputError
from pcg.experiments.grids import SECTIONS, libritts_utterances, offline_utterances
from pcg.metrics.intelligibility import read_sentences
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.text.prompt import PhonemeReader
from pcg.text.reading import normalise
from pcg.training.sentences import _TEMPLATES

ALL = 240
VOICES = ("a", "b", "c", "d")
RATE = 24_000


def test_sections_are_large_enough_and_no_sentence_comes_twice():
    assert {name: len(read_sentences(*parts)) for name, parts in SECTIONS.items()} == {
        "everyday": 60,
        "balanced": 118,
        "rare": 20,
        "twisters": 42,
    }
    texts = [u.text for u in offline_utterances(ALL, VOICES)]
    assert len({normalise(text) for text in texts}) == ALL


def test_sentences_are_plain_and_sayable_in_eight_seconds():
    card = json.loads((EMBEDDED / "voice.json").read_text(encoding="utf-8"))
    reader, codec = PhonemeReader(tuple(card["symbols"]), tuple(card["durations"])), load_codec(EMBEDDED / "codec")
    for text in read_sentences("more-everyday", "more-balanced", "twisters"):
        assert re.fullmatch(r"[A-Z][A-Za-z', ]+[.?]", text), text
        assert 5 <= len(text.split()) <= 14, text
        assert normalise(text) == text.replace("Zoe", "Zoey"), text
        assert reader.expected_tokens(reader.read(text)) * codec.hop / codec.sample_rate < 8, text


def test_no_sentence_is_a_template_of_the_corpus():
    patterns = [re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(template))) for template in _TEMPLATES]
    texts = read_sentences("more-everyday", "more-balanced", "twisters")
    assert not [text for text in texts for pattern in patterns if pattern.fullmatch(text)]
    written = "Anna Smith lives in Oslo.", "There were 3 apples on the table."
    assert all(any(pattern.fullmatch(text) for pattern in patterns) for text in written)


@pytest.mark.parametrize("count", [4, 37, 80, ALL])
@pytest.mark.parametrize("voices", [VOICES[:1], VOICES[:3], VOICES])
def test_sections_and_voices_are_spread_evenly(count, voices):
    utterances = offline_utterances(count, voices)
    assert utterances == offline_utterances(ALL, voices)[:count]
    spoken = Counter(u.voice for u in utterances)
    assert max(spoken.values()) - min(spoken[v] for v in voices) <= 1
    per_section = Counter(u.section for u in utterances)
    if count <= 80:
        assert max(per_section.values()) - min(per_section[s] for s in SECTIONS) <= 1
    for section in SECTIONS:
        inside = Counter(u.voice for u in utterances if u.section == section)
        assert max(inside.values()) - min(inside[v] for v in voices) <= 2
    with pytest.raises(InputError, match=f"from 1 to {ALL}"):
        offline_utterances(ALL + 1, voices)


@pytest.fixture
def libritts(tmp_path):
    """Three speakers: two with a short recording among six each, and one, 300, whose recordings are all long."""
    for speaker, seconds in ((100, (5, 2.2, 3.1, 6, 3.4, 7)), (200, (2.1, 3.9, 8, 9, 5, 6)), (300, (4.5, 5, 6, 1, 8, 1.9))):
        for i, duration in enumerate(seconds):
            name = f"{speaker}_{speaker + 1}_000001_{i:06d}"
            chapter = tmp_path / "LibriTTS" / "test-clean" / str(speaker) / str(speaker + 1)
            chapter.mkdir(parents=True, exist_ok=True)
            soundfile.write(chapter / f"{name}.wav", np.zeros(int(duration * RATE), np.float32), RATE)
            (chapter / f"{name}.normalized.txt").write_text(f"This is {name}.\n", encoding="utf-8")
            (chapter / f"{name}.original.txt").write_text("No. 1!", encoding="utf-8")
    return tmp_path / "LibriTTS"


def test_each_utterance_is_cloned_from_its_speakers_recording_nearest_to_three_seconds(libritts):
    utterances = libritts_utterances(libritts, count=10)
    assert {u.voice for u in utterances} == {"100", "200"}
    prompts = {"100": "100_101_000001_000002", "200": "200_201_000001_000000"}
    for u in utterances:
        assert u.reference == str(libritts / "test-clean" / u.voice / f"{int(u.voice) + 1}" / f"{prompts[u.voice]}.wav")
        assert u.reference_text == f"This is {prompts[u.voice]}."
        assert u.text.startswith(f"This is {u.voice}_")
        assert u.section == "test-clean"
    said = [u.text for u in utterances]
    assert len(set(said)) == 10
    assert not set(said) & {u.reference_text for u in utterances}
    assert libritts_utterances(libritts / "test-clean", count=4) == utterances[:4]  # fewer are the beginning of more
    (libritts / "test-clean/100/101/100_101_000001_000000.normalized.txt").write_text("word " * 2000, encoding="utf-8")
    with pytest.raises(InputError, match="from 1 to 9"):  # a text that is too long is left out
        libritts_utterances(libritts, count=10)


def test_a_folder_of_something_else_and_a_damaged_one_are_named(libritts, tmp_path):
    with pytest.raises(InputError, match="test-clean/SPEAKER/CHAPTER"):
        libritts_utterances(tmp_path / "none")
    with pytest.raises(InputError, match="from 1 to 10"):
        libritts_utterances(libritts)
    wave = libritts / "test-clean/200/201/200_201_000001_000003.wav"
    wave.write_bytes(b"noise")
    with pytest.raises(AssetError, match=wave.name):
        libritts_utterances(libritts, count=5)
    wave.unlink()
    assert libritts_utterances(libritts, count=5)
    next((libritts / "test-clean/100/101").glob("*.normalized.txt")).unlink()
    with pytest.raises(AssetError, match=r"normalized\.txt"):
        libritts_utterances(libritts, count=5)
