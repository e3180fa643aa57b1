import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import jiwer
import numpy as np
import pytest
import soundfile
import torch
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from torch import Tensor

from explorers.recognise.actions import (
    NO_TAKE,
    RecognisedSound,
    TranscriptPart,
    align,
    hear,
    preset_of,
    sliders_of,
    take_again,
    thresholds_of,
)
from explorers.recognise.figures import entropy_figure
from explorers.recognise.layout import create_recognise
from explorers.recognise.transcript import alignment_html, transcript_html
from explorers.session import Session, ShownTake, TakeView
from pcg.asr.embedded import EmbeddedRecogniser, load_recogniser
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS, Thresholds, transcribe
from pcg.audio import write_wav
from pcg.errors import AssetError, InputError, PCGError
from pcg.metrics.intelligibility import comparable, word_errors
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take, pack_take
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.served import in_hand, serve_clients

Babble = Callable[[int, int], list[Tensor]]
RATE = 16_000
SETTINGS = (*PRESETS.values(), Thresholds(1.5, 0.0), Thresholds(None, 0.3), Thresholds(0.5, None))


@pytest.fixture
def heard(recogniser: EmbeddedRecogniser, sound: np.ndarray) -> RecognisedSound:
    return hear(recogniser, sound, RATE, PRESETS["accurate"], "the quick brown fox")


@pytest.mark.parametrize("thresholds", SETTINGS)
def test_what_was_kept_and_what_was_rewritten_are_the_transcript(
    recogniser: EmbeddedRecogniser, babble: Babble, thresholds: Thresholds
) -> None:
    for utterance in babble(6, 2):
        heard = hear(recogniser, utterance.numpy(), RATE, thresholds)
        (part,) = heard.parts
        assert part.accepted + part.rewritten == heard.text
        assert part.transcript.stage == "ar" or not part.rewritten


def test_a_prefix_that_the_text_spells_otherwise_is_kept_as_far_as_it_goes(heard: RecognisedSound) -> None:
    own = replace(heard.parts[0].transcript, stage="ar", text="naïve words", accepted_text="na\ufffd")
    part = TranscriptPart(own, 0.0, 1.0)
    assert (part.accepted, part.rewritten) == ("na", "ïve words")


def test_the_figures_are_those_of_the_engine(recogniser: EmbeddedRecogniser, sound: np.ndarray, heard: RecognisedSound) -> None:
    (expected,) = transcribe(recogniser, [torch.from_numpy(sound)], PRESETS["accurate"])
    record = heard.record()
    assert (record["text"], record["stage"], record["judge"]) == (expected.text, expected.stage, recogniser.name)
    (part,) = record["parts"]
    assert part["entropies"] == pytest.approx(expected.entropies.tolist(), abs=1e-3)
    assert record["seconds"] == pytest.approx(len(sound) / RATE, abs=1e-3)
    assert record["rtfx"] == pytest.approx(1000 * heard.seconds / heard.times.total, abs=0.01)
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_the_picture_shows_every_entropy_and_the_gate(heard: RecognisedSound) -> None:
    figure = entropy_figure(heard)
    traces = {trace.name: trace for trace in figure.data}
    entropies = heard.parts[0].transcript.entropies.numpy()
    assert np.asarray(traces["entropy"].y)[:-1] == pytest.approx(entropies, abs=1e-3)
    assert list(traces["gate 0.7 nats"].y) == [0.7, 0.7]
    assert len(traces["uncertain"].y) == int((entropies >= 0.7).sum())
    without = entropy_figure(replace(heard, thresholds=PRESETS["ar"]))
    assert [trace.name for trace in without.data] == ["sound", "entropy"]


def test_a_long_sound_keeps_its_peaks_in_the_picture(heard: RecognisedSound) -> None:
    own = heard.parts[0].transcript
    entropies = torch.zeros(20_000)
    entropies[[7, 12_345]] = torch.tensor([1.0, 3.0])
    parts = tuple(TranscriptPart(replace(own, entropies=entropies), begin, begin + 400.0) for begin in (0.0, 400.0))
    drawn = next(t for t in entropy_figure(replace(heard, parts=parts)).data if t.name == "entropy")
    assert len(drawn.y) < 3100
    assert sorted(y for y in drawn.y if y > 0) == [1.0, 1.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("meant", "said"),
    [
        ("The quick brown fox.", "the quack brown box jumps"),
        ("a b c d e", "b c x y e e"),
        ("one two", ""),
        ("Colour, ok?", "color okay"),
        ("a b", "c d e f"),
    ],
)
def test_the_errors_are_those_of_jiwer(meant: str, said: str) -> None:
    alignment, found = align(meant, said), jiwer.process_words(comparable(meant), comparable(said))
    counted = [alignment.count(kind) for kind in ("equal", "substitute", "insert", "delete")]
    assert counted == [found.hits, found.substitutions, found.insertions, found.deletions]
    assert alignment.errors == word_errors(meant, said)
    assert " ".join(w.meant for w in alignment.words if w.meant) == comparable(meant)
    assert " ".join(w.heard for w in alignment.words if w.heard) == comparable(said)


def test_a_reference_longer_than_any_text_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"reference is '5,001 characters', but must be at most 5,000 characters\."):
        align("x" * 5_001, "hello")


def test_hostile_words_stay_words(heard: RecognisedSound) -> None:
    own = replace(heard.parts[0].transcript, stage="ar", text=MARKUP, accepted_text=MARKUP[:20], draft=MARKUP)
    parts = (TranscriptPart(own, 0.0, 1.0, ("<b>", 0.1)), TranscriptPart(own, 1.0, 2.0))
    hostile = replace(heard, judge=MARKUP, text=MARKUP, parts=parts, alignment=align(MARKUP, MARKUP + " more"))
    assert hostile.alignment is not None
    for page in (transcript_html(hostile), alignment_html(hostile.alignment, MARKUP)):
        assert_words_stay_words(page)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_and_sliders_are_each_others_inverse(name: str) -> None:
    assert thresholds_of(*sliders_of(name)) == PRESETS[name]
    assert preset_of(thresholds_of(*sliders_of(name))) == name


@pytest.mark.parametrize("taus", [(-0.1, 0.5), (4.1, 0.5), (1, 1.1), (float("nan"), 0.5), (None, 0.5), (True, 0.5), (1, "0.5")])
def test_thresholds_outside_their_range_are_refused(taus: tuple[object, object]) -> None:
    with pytest.raises(InputError, match="must be a number from 0 to"):
        thresholds_of(*taus)


def test_silence_has_no_parts_and_is_told(recogniser: EmbeddedRecogniser) -> None:
    heard = hear(recogniser, np.zeros(RATE, np.float32), RATE, PRESETS["fast"], "one two")
    assert (heard.record()["stage"], heard.rtfx, heard.alignment.errors.errors) == (None, None, 2)
    assert "The sound contains no speech" in transcript_html(heard)
    assert entropy_figure(heard).layout.xaxis.range == (0, 1)


def test_the_take_in_hand_is_decoded_again(synthesizer: Synthesizer) -> None:
    take = synthesizer.take("The quick brown fox.", Settings("pcg", theta=0.3), "two")
    spoken = take_again(synthesizer, ShownTake(TakeView.of(take)))
    assert (spoken.text, spoken.method, spoken.voice) == (take.text, "pcg", "two")
    assert np.array_equal(spoken.samples, take.audio)
    own = ShownTake(TakeView.of(replace(take, voice="your recording")), reference=synthesizer.voice.reference("one"))
    recorded = take_again(synthesizer, own)
    assert recorded.voice == "your recording"
    assert np.array_equal(recorded.samples, synthesizer.decode(list(take.tokens), own.reference))
    assert not np.array_equal(recorded.samples, spoken.samples)
    with pytest.raises(PCGError, match=NO_TAKE):
        take_again(synthesizer, None)


def test_the_take_in_hand_is_heard_with_its_pauses(synthesizer: Synthesizer, tmp_path: Path) -> None:
    take = synthesizer.take("One fox.[pause:1]Two foxes.", Settings("pcg", theta=0.3), "two")
    write_wav(tmp_path / "take.wav", take.audio, take.sample_rate)
    kept = ShownTake(TakeView.of(take), tmp_path / "take.wav", packed=pack_take(take))
    assert len(take_again(synthesizer, kept).samples) == len(take.audio)
    assert len(take.audio) - len(synthesizer.decode(list(take.tokens), synthesizer.voice.reference("two"))) == take.sample_rate
    (tmp_path / "take.wav").unlink()
    assert len(take_again(synthesizer, kept).samples) == len(take.audio) - take.sample_rate


def _session(take: Take) -> Session:
    return Session().with_take(TakeView.of(take))


def _served(synthesizer: Synthesizer, load: Callable[[], Recogniser], session: Session) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_recognise(synthesizer, load, gr.State(session), in_hand())
    yield from serve_clients(app)


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take("The quick brown fox.", Settings("pcg", theta=0.3), "two")


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer, recogniser: EmbeddedRecogniser, take: Take) -> Iterator[Client]:
    yield from _served(synthesizer, lambda: recogniser, _session(take))


@pytest.fixture(scope="module")
def deaf(synthesizer: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    missing = tmp_path_factory.mktemp("nothing")
    yield from _served(synthesizer, lambda: load_recogniser(missing), Session())


def test_the_endpoint_answers_with_a_record_and_pages(
    client: Client, recordings: list[Path], recogniser: EmbeddedRecogniser
) -> None:
    path = recordings[0]
    expected = hear(recogniser, soundfile.read(path, dtype="float32")[0], RATE, Thresholds(2.0, 0.1), MARKUP)
    record, page, picture, errors, preset, status = client.predict(handle_file(path), 2.0, 0.1, MARKUP, api_name="/transcribe")
    assert (record["text"], record["stage"]) == (expected.text, expected.record()["stage"])
    assert record["wer"] == pytest.approx(expected.alignment.errors.rate, abs=1e-6)
    assert record["parts"][0]["entropies"] == pytest.approx(expected.record()["parts"][0]["entropies"], abs=1e-3)
    assert "gate 2 nats" in picture["value"]["plot"]
    assert preset is None
    assert "Transcribed " in status
    assert "WER</a> by tiny" in page
    assert "<img" not in page + errors


def test_without_a_sound_the_page_asks_for_one(client: Client) -> None:
    with pytest.raises(AppError, match="There is no sound to transcribe: upload or record one"):
        client.predict(None, 0.7, 0.2, "", api_name="/transcribe")


def test_the_take_in_hand_comes_with_its_text(client: Client, take: Take) -> None:
    sound, text, words = client.predict(api_name="/last_take")
    assert soundfile.info(sound).frames == len(take.audio)
    assert (text, "The PCG take, by two." in words) == (take.text, True)


def test_the_endpoint_refuses_in_one_sentence(client: Client, recordings: list[Path]) -> None:
    with pytest.raises(AppError):
        client.predict(handle_file(recordings[0]), 9.0, 0.2, "", api_name="/transcribe")


def test_a_missing_recogniser_is_one_sentence(deaf: Client, recordings: list[Path], tmp_path: Path) -> None:
    with pytest.raises(AssetError):
        load_recogniser(tmp_path)
    with pytest.raises(AppError, match=r"The recogniser in .* is missing or damaged"):
        deaf.predict(handle_file(recordings[0]), 0.7, 0.2, "", api_name="/transcribe")
    with pytest.raises(AppError, match="There is no take yet"):
        deaf.predict(api_name="/last_take")
