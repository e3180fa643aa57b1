"""The card of listed words: its text is the judge's, its scores are the candidates', its words stay words."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from torch import Tensor

from explorers.recognise.actions import align
from explorers.recognise.candidates import MOST_TABLES, wording_html
from explorers.recognise.word_list import create_words
from explorers.recognise.word_list_actions import MOST_CANDIDATES, Wording, hear_in_words
from pcg.asr.candidates import Candidate, CandidateWeights
from pcg.asr.embedded import EmbeddedRecogniser
from pcg.asr.judges import ListeningJudge
from pcg.asr.lexicon import load_lexicon
from pcg.metrics.intelligibility import word_errors
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.served import serve_clients

Babble = Callable[[int, int], list[Tensor]]
RATE = 16_000


@pytest.fixture
def wording(recogniser: EmbeddedRecogniser, sound: np.ndarray) -> Wording:
    return hear_in_words(recogniser, load_lexicon(), sound, RATE, "the quick brown fox")


def test_it_is_what_the_judge_hears(recogniser: EmbeddedRecogniser, sound: np.ndarray, wording: Wording) -> None:
    judge = ListeningJudge(recogniser, load_lexicon(), "words")
    assert [wording.text] == judge.transcribe([sound], RATE)
    record = wording.record()
    assert record["judge"] == judge.name
    assert record["wer"] == pytest.approx(word_errors("the quick brown fox", wording.text).rate, abs=1e-6)
    (part,) = record["parts"]
    assert part["candidates"][0]["text"] == wording.text
    for candidate in part["candidates"]:
        told = Candidate(*(candidate[name] for name in ("text", "ctc", "lm", "bigrams")))
        assert CandidateWeights().score(told) == pytest.approx(candidate["score"], abs=0.01)
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_the_page_shows_the_best_candidates(wording: Wording) -> None:
    page = wording_html(wording)
    shown = min(MOST_CANDIDATES, len(wording.parts[0].candidates))
    assert page.count('class="candidate"') == shown
    many = replace(wording, parts=wording.parts * (MOST_TABLES + 2), starts=wording.starts * (MOST_TABLES + 2))
    assert wording_html(many).count("<table") == MOST_TABLES
    assert "of 2 more utterances" in wording_html(many)


def test_hostile_words_stay_words(wording: Wording) -> None:
    part = replace(wording.parts[0], text=MARKUP, candidates=(Candidate(MARKUP, -1.0, -1.0, -1.0),))
    for alignment in (None, align(MARKUP, MARKUP + " more")):
        hostile = replace(wording, judge=MARKUP, text=MARKUP, parts=(part,), alignment=alignment)
        assert_words_stay_words(wording_html(hostile))


def test_silence_is_told(recogniser: EmbeddedRecogniser) -> None:
    heard = hear_in_words(recogniser, load_lexicon(), np.zeros(RATE, np.float32), RATE)
    assert (heard.text, heard.rtfx, heard.record()["wer"]) == ("", None, None)
    assert "The sound contains no speech" in wording_html(heard)


@pytest.fixture(scope="module")
def client(recogniser: EmbeddedRecogniser) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_words(lambda: recogniser, gr.Audio(type="filepath"), gr.Textbox())
    yield from serve_clients(app)


def test_the_endpoint_answers_refuses_and_asks(client: Client, sound: np.ndarray, wording: Wording, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", sound, RATE, subtype="FLOAT")
    record, page = client.predict(
        handle_file(tmp_path / "a.wav"), "the quick brown fox", api_name="/transcribe_in_listed_words"
    )
    assert (record["text"], record["wer"]) == (wording.text, wording.record()["wer"])
    assert "Candidates" in page
    with pytest.raises(AppError, match="There is no sound to transcribe"):
        client.predict(None, "", api_name="/transcribe_in_listed_words")
    (tmp_path / "b.wav").write_text("no audio")
    with pytest.raises(AppError, match="must be a readable"):
        client.predict(handle_file(tmp_path / "b.wav"), "", api_name="/transcribe_in_listed_words")
