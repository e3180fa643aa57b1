"""The corpus: what is held out stays out, and sound is trimmed and levelled."""

import json

import numpy as np
import pytest

from pcg.metrics.intelligibility import read_sentences
from pcg.training.corpus import SPEAKERS, Speaker, load_teacher, make_corpus, speak
from pcg.training.sentences import build_pool, held_out_words, is_held_out, plain
from pcg.training.shards import read_corpus, read_shard


def test_held_out_words_are_rare_and_always_the_same():
    sentences = ["the river runs past the old harbour"] * 30 + [f"a {w}" for w in ("xylophone", "quagmire", "zeppelin")] * 2
    sentences += [f"word{chr(97 + i % 26)}{chr(97 + i // 26)} once" for i in range(400)]
    rare = held_out_words(sentences)
    assert rare == held_out_words(list(reversed(sentences)))
    assert "river" not in rare
    assert 0 < len(rare) < 40
    assert 0 < sum(is_held_out(s) for s in set(sentences)) < 30


def test_a_teacher_speaks_each_utterance_in_a_pitch_and_pace_of_its_own():
    load_teacher.cache_clear()
    text, heart = "The morning sun was warm.", SPEAKERS["heart"]
    once, again, other = speak(heart, text, 1, True), speak(heart, text, 1, True), speak(heart, text, 2, True)
    assert np.array_equal(once, again)
    assert len(once) != len(other)
    assert 1.0 < len(once) / 16_000 < 4.0
    assert np.abs(once).max() <= 0.951
    shifted = speak(Speaker("hibari", 1.2), text, 1)
    assert len(shifted) == pytest.approx(len(speak(heart, text, 1)), rel=0.15)


def test_a_corpus_holds_its_held_out_sentences_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("pcg.training.sentences._wordnet", lambda: iter(["a large grey animal with a long trunk"]))
    monkeypatch.setattr("pcg.training.corpus.SHARD_SIZE", 4)
    prose = tmp_path / "prose.txt"
    judged = read_sentences("everyday", "more-everyday", "more-balanced")
    told = [f"The old boat number {n} moved slowly along the river, and stopped." for n in range(300)]
    prose.write_text("\n".join([*told, *judged, *map(str.upper, judged)]))
    pool = build_pool(prose, 0)
    every = [*pool.train, *pool.held_out_sentences, *pool.held_out_word_sentences]
    assert not {plain(text) for text in every} & {plain(text) for text in judged}
    assert len(every) > 200
    assert not set(pool.train) & set(pool.held_out_sentences)
    assert any(text.endswith("?") for text in pool.train)
    assert any(len(text.split()) == 1 for text in pool.train)
    make_corpus(tmp_path / "corpus", prose, {"heart": Speaker("hibari", 1.0, 0.001)}, 2, 0, 1)
    train, held_out = ({u.text for u in read_corpus(tmp_path / "corpus", split)} for split in ("train", "held_out_sentences"))
    assert train
    assert not train & held_out


def test_a_shard_of_the_second_edition_is_read(tmp_path):
    """Its rows tell where an utterance begins, and no voice."""
    np.save(tmp_path / "heart.npy", np.arange(5, dtype=np.int16))
    rows = [{"text": "one", "start": 0, "length": 2}, {"text": "two", "start": 2, "length": 3}]
    (tmp_path / "heart.json").write_text(json.dumps(rows))
    spoken = [(u.voice, u.text, u.values.tolist()) for u in read_shard(tmp_path / "heart.npy")]
    assert spoken == [(tmp_path.name, "one", [0, 1]), (tmp_path.name, "two", [2, 3, 4])]
