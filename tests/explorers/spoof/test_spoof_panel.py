"""The Spoof panel as a program sees it: named endpoints, typed answers, refusals in one sentence."""

from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from app import build_page
from explorers.listen.actions import token_rate
from explorers.requests.page import Page
from explorers.session import Session, TakeView
from explorers.spoof.actions import SpoofRequest, generate_all, remembered
from explorers.spoof.layout import create_spoof
from explorers.spoof.ways import WAYS
from explorers.turn import Turn
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.served import serve_clients
from tests.explorers.spoof.test_beams import untrained

TEXT = "Hello, yes <b>${1}</b>."
ASKED = {"text": TEXT, "voice": "two", "method": "ar", "temperature": 1.0, "seed": 5}


@pytest.fixture(scope="module")
def judging(synthesizer: Synthesizer) -> Synthesizer:
    return Synthesizer(synthesizer.voice, detectors=untrained(64))


@pytest.fixture(scope="module")
def client(judging: Synthesizer) -> Iterator[Client]:
    with Page() as page:
        create_spoof(judging)
    yield from serve_clients(page)


def test_a_drafting_method_has_the_knobs_of_the_page() -> None:
    knobs = {"theta": 0.55, "similarity": "mel", "lookahead": 5, "beta": 0.1, "temperature": 0.9, "seed": 4}
    settings = SpoofRequest(TEXT, "two", "pcg", **knobs).settings(WAYS["eas"])
    assert {name: getattr(settings, name) for name in knobs} == knobs
    assert (settings.method, settings.sampler, settings.top_p) == ("pcg", "eas", 0.8)


def test_a_beam_is_heard_only_after_a_text_was_said(client: Client) -> None:
    with pytest.raises(AppError, match="There are no beams of HierRAS yet: generate a text first"):
        client.predict(way="hierras", cycle=1, beam=1, api_name="/spoof_beam")


def test_the_takes_go_into_the_history_and_onto_no_card(judging: Synthesizer, tmp_path: Path) -> None:
    session = Session().with_take(TakeView.of(judging.take("yes", Settings("sd"), "two")), False)
    said = [step.done for step in generate_all(judging, SpoofRequest(**ASKED | {"text": "yes"})) if step.done]
    turn = Turn()
    turn.begin(session)
    kept = remembered(session, said, lambda take, reference, streamed: tmp_path / f"{take.settings.sampler}.wav", turn)
    assert [each.name for each in turn.changed(session).history] == [each.name for each in kept.history]
    assert [each.name for each in kept.history] == ["", *(way.name for way in WAYS.values())]
    assert [each.number for each in kept.history] == list(range(1, 8))
    assert list(kept.cards) == ["sd"]
    assert kept.holding(7).in_hand("sd").reading.settings.hierarchical


@pytest.mark.slow
def test_a_program_says_a_text_six_ways_and_hears_a_pruned_beam(client: Client, judging: Synthesizer) -> None:
    job = client.submit(**ASKED, api_name="/spoof")
    first, *_, (record, way, tree, *_, status) = steps = list(job)
    assert first[0]["ways"] == {}
    assert (record["text"], record["n"], list(record["ways"])) == (TEXT, 1, list(WAYS))
    for each in record["ways"]:
        assert [step[0]["ways"] for step in steps if list(step[0].get("ways", {}))[-1:] == [each]]
    assert "All six takes are ready." in _value(status)
    take = judging.take(TEXT, SpoofRequest(**ASKED).settings(WAYS["hierras"]), "two")
    assert record["ways"]["hierras"]["computed_per_token"] == pytest.approx(take.computed_per_token, abs=1e-4)
    assert _value(way) == "hiereas"
    assert 'role="button"' in _value(tree)
    sound, rate = soundfile.read(next(step[4] for step in steps if list(step[0].get("ways", {})) == ["original"]))
    assert len(sound) / rate == pytest.approx(record["ways"]["original"]["audio_seconds"], abs=1e-3)

    cycle = record["ways"]["hierras"]["cycles"][0]
    pruned = next(beam for beam in cycle["beams"] if beam["stages"] == 1 and beam["tokens"])
    found, words, file = client.predict("hierras", 1, pruned["beam"], api_name="/spoof_beam")
    assert (found["way"], found["cycle"], found["beam"], found["chosen"]) == ("hierras", 1, pruned["beam"], False)
    assert found["real"] == pruned["real"]
    assert "pruned after 10" in words
    sound, rate = soundfile.read(file)
    assert len(sound) / rate == pytest.approx(cycle["start_seconds"] + pruned["tokens"] / token_rate(judging), abs=1e-3)
    with pytest.raises(AppError, match="beam is 9, but must be a whole number from 1 to 8"):
        client.predict("hierras", 1, 9, api_name="/spoof_beam")


@pytest.mark.parametrize(
    ("endpoint", "wrong", "sentence"),
    [
        ("/spoof", {"text": " "}, "text is missing, but must be some English text"),
        ("/spoof", {"temperature": 9.0}, "temperature is 9.0"),
        ("/spoof", {"theta": 0.0}, "theta is 0.0"),
        ("/spoof", {"method": "magic"}, "method is 'magic'"),
        ("/spoof", {"seed": -1}, "seed is -1"),
        ("/spoof_beam", {"way": "eas"}, "way is 'eas', but must be one of hierras, hiereas"),
        ("/spoof_beam", {"cycle": 0}, "cycle is 0"),
    ],
)
def test_bad_input_is_one_sentence(client: Client, endpoint: str, wrong: dict[str, object], sentence: str) -> None:
    given = ASKED if endpoint == "/spoof" else {"way": "hierras", "cycle": 1, "beam": 1}
    with pytest.raises(AppError, match=sentence):
        client.predict(**{**given, **wrong}, api_name=endpoint)


def test_endpoints_are_documented(client: Client) -> None:
    told = client.view_api(return_format="dict")["named_endpoints"]
    assert set(told) == {"/spoof", "/spoof_beam"}
    assert [p["parameter_name"] for p in told["/spoof"]["parameters"]] == [*ASKED, "theta", "similarity", "lookahead", "beta"]
    assert [p["parameter_name"] for p in told["/spoof_beam"]["parameters"]] == ["way", "cycle", "beam"]
    assert all(len(each["description"]) > 100 for each in told.values())


@pytest.mark.slow
def test_the_tab_is_there_where_detectors_fit_the_voice(
    judging: Synthesizer, synthesizer: Synthesizer, example_folder: Path, recogniser_folder: Path
) -> None:
    def tabs(speaking: Synthesizer) -> list[str]:
        page = build_page(speaking, example_folder, recogniser_folder)
        return [block.label for block in page.blocks.values() if isinstance(block, gr.Tab)]

    assert "Spoof" in tabs(judging)
    assert "Spoof" not in tabs(Synthesizer(synthesizer.voice, detectors=untrained(65)))


def _value(update: object) -> object:
    """Gradio's client brings an update as a dictionary, and a plain value as it is."""
    return update.get("value", update) if isinstance(update, dict) else update
