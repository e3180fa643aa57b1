"""The corpus: what is held out stays out, and sound is trimmed and levelled."""

import shutil

import numpy as np
import pytest

from pcg.audio import fade_ends, normalise_loudness, trim
from pcg.training.data.corpus import speak
from pcg.training.data.sentences import held_out_words, is_held_out


def test_held_out_words_are_rare_and_always_the_same():
    sentences = ["the river runs past the old harbour"] * 30 + [f"a {w}" for w in ("xylophone", "quagmire", "zeppelin")] * 2
    sentences += [f"word{chr(97 + i % 26)}{chr(97 + i // 26)} once" for i in range(400)]
    rare = held_out_words(sentences)
    assert rare == held_out_words(list(reversed(sentences)))
    assert "river" not in rare
    assert 0 < len(rare) < 40
    assert 0 < sum(is_held_out(s) for s in set(sentences)) < 30


def test_trimming_leaves_a_margin_and_loudness_is_levelled():
    rate = 16_000
    tone = 0.2 * np.sin(2 * np.pi * 200 * np.arange(rate) / rate).astype(np.float32)
    padded = np.concatenate([np.zeros(rate, np.float32), tone, np.zeros(rate, np.float32)])
    assert len(trim(padded, rate)) / rate == pytest.approx(1.12, abs=0.03)
    assert len(trim(np.zeros(rate, np.float32), rate)) == 0
    quiet, loud = normalise_loudness(0.1 * tone), normalise_loudness(tone)
    assert np.std(quiet) == pytest.approx(np.std(loud), rel=0.15)
    assert np.abs(normalise_loudness(100 * tone)).max() <= 0.951


def test_faded_ends_join_without_a_step():
    faded = fade_ends(np.ones(1000, np.float32), 16_000)
    assert faded[0] == faded[-1] == 0
    assert (faded[100:-100] == 1).all()
    assert np.abs(np.diff(faded)).max() < 0.02


@pytest.mark.skipif(shutil.which("flite") is None, reason="needs the flite synthesizer")
def test_a_synthesizer_speaks_for_the_corpus():
    samples = speak("rms", "the morning sun was warm.")
    assert 1.0 < len(samples) / 16_000 < 4.0
    assert np.abs(samples).max() <= 0.951
