from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import jiwer
import numpy as np
import pytest
import soundfile
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from torch import Tensor

from explorers.more.recognition import (
    NO_SOUND,
    align,
    alignment_html,
    create_recognition,
    error_rate,
    record_of,
    transcript_html,
)
from explorers.session import Session
from pcg.asr.embedded import Recogniser
from pcg.asr.self_speculative import PRESETS, Recognition, Thresholds, listen
from pcg.metrics.intelligibility import comparable, word_errors
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.served import in_hand, serve_clients

RATE = 16_000


@pytest.fixture
def sound(babble: Callable[[int, int], list[Tensor]]) -> np.ndarray:
    return babble(1, 3)[0].numpy()


@pytest.fixture
def heard(recogniser: Recogniser, sound: np.ndarray) -> Recognition:
    return listen(recogniser, sound, RATE, PRESETS["accurate"])


@pytest.mark.parametrize(
    ("meant", "said"),
    [("The quick brown fox.", "the quack brown box jumps"), ("a b c d e", "b c x y e e"), ("one two", ""),
     ("Colour, ok?", "color okay"), ("a b", "c d e f")],
)  # fmt: skip
def test_the_errors_are_those_of_jiwer(meant: str, said: str) -> None:
    words, expected = align(meant, said), jiwer.process_words(comparable(meant), comparable(said))
    kinds = [kind for kind, *_ in words]
    assert [kinds.count(kind) for kind in ("equal", "substitute", "insert", "delete")] == [
        expected.hits,
        expected.substitutions,
        expected.insertions,
        expected.deletions,
    ]
    assert error_rate(words) == pytest.approx(word_errors(meant, said).rate)
    assert " ".join(word[1] for word in words if word[1]) == comparable(meant)
    assert " ".join(word[2] for word in words if word[2]) == comparable(said)


def test_hostile_words_stay_words(recogniser: Recogniser, heard: Recognition) -> None:
    part = replace(heard.parts[0], stage="ar", text=MARKUP, accepted_text=MARKUP[:20], draft=MARKUP)
    hostile = replace(heard, parts=(part, part), starts=(0.0, 1.0))
    words = align(MARKUP, MARKUP + " more")
    for page in (transcript_html(recogniser, PRESETS["accurate"], hostile), alignment_html(MARKUP, words)):
        assert_words_stay_words(page)


def test_the_page_tells_which_step_decided_and_why(recogniser: Recogniser, sound: np.ndarray) -> None:
    pages = {}
    for name, thresholds in {"certain": Thresholds(4.0, 0.1), "alone": PRESETS["ar"], "refused": Thresholds(0.0, 0.9)}.items():
        pages[name] = transcript_html(recogniser, thresholds, listen(recogniser, sound, RATE, thresholds))
    assert 'class="ctc accepting"' in pages["certain"]
    assert "1 of 1 utterance" in pages["certain"]
    assert 'class="ar accepting"' in pages["alone"]
    assert "disabled" in pages["alone"]
    assert "CTC draft: " in pages["alone"]
    assert "not above 0.9" in pages["refused"]


def test_silence_has_no_parts_and_is_told(recogniser: Recogniser) -> None:
    result = listen(recogniser, np.zeros(RATE, np.float32), RATE, PRESETS["fast"])
    record = record_of(recogniser.name, result, align("hello there", result.text))
    assert (record["stage"], record["rtfx"], record["wer"]) == (None, None, 1)
    assert "The sound contains no speech" in transcript_html(recogniser, PRESETS["fast"], result)


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer, recogniser: Recogniser) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_recognition(synthesizer, lambda: recogniser, gr.State(Session()), in_hand())
    yield from serve_clients(app)


@pytest.fixture
def recording(sound: np.ndarray, tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "babble.wav", sound, RATE)
    return tmp_path / "babble.wav"


def test_the_endpoint_answers_with_a_record_and_pages(client: Client, recording: Path, recogniser: Recogniser) -> None:
    expected = listen(recogniser, soundfile.read(recording, dtype="float32")[0], RATE, PRESETS["fast"])
    record, page, errors, status = client.predict(handle_file(recording), MARKUP, "fast", api_name="/transcribe")
    assert (record["text"], record["stage"]) == (expected.text, expected.parts[0].stage)
    assert record["wer"] == pytest.approx(error_rate(align(MARKUP, expected.text)), abs=1e-6)
    assert "Transcribed " in status
    assert "<img" not in page + errors
    with pytest.raises(AppError, match=NO_SOUND):
        client.predict(None, "", "fast", api_name="/transcribe")
