"""The Listen tab without a browser: takes, the JSON value, verdicts, links, presets, the example."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import numpy as np
import pytest

from explorers.listen import share
from explorers.listen.actions import Request, Speaker, Step, generate, recording_note, stopped
from explorers.listen.example import read_example, write_example
from explorers.listen.layout import Listen
from explorers.listen.value import example_value, stage_value, study_of, verdict_lines
from explorers.session import REMEMBERED, Session, ShownTake, Turn, speed_up
from explorers.shared.verdict import Measured, shipped
from pcg.audio import write_wav
from pcg.errors import AssetError, InputError, PCGError
from pcg.saved_take import Origin, Stored, read_link, write_link
from pcg.serving.speech_service import SpeechService
from pcg.settings import EXACT, METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from pcg.text.prompt import Reference
from tests.explorers.raw import Raw
from tests.wav_comment import read_stored

TEXT = "The quick brown fox, yes."
SETTINGS = Settings("pcg", theta=0.3, temperature=0.6, seed=7)
REQUEST = Request(TEXT, "two", SETTINGS)


class FakeJudges:
    """Judges that hear every second word."""

    def transcribe(self, samples: np.ndarray, sample_rate: int) -> str:
        return "the brown"


@pytest.fixture(scope="module")
def speaker(synthesizer: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Speaker:
    folder = tmp_path_factory.mktemp("takes")

    def keep(take: Take, reference: Reference | None) -> Path:
        return share.wav_file(take, Stored.of(take, Origin.of(synthesizer.voice), reference), folder)

    return Speaker(synthesizer, keep)


@pytest.fixture(scope="module")
def steps(speaker: Speaker) -> list[Step]:
    return list(generate(speaker, REQUEST, Session()))


@pytest.fixture(scope="module")
def session(steps: list[Step]) -> Session:
    """What a run by all methods has made."""
    return steps[-1].session


@pytest.fixture
def value(synthesizer: Synthesizer) -> Callable[..., dict[str, object]]:
    """The state of the stage's value."""
    origin = Origin.of(synthesizer.voice)

    def of(session: Session, key: str = "pcg", **more: object) -> dict[str, object]:
        return json.loads(stage_value(synthesizer, origin, session, key, more.pop("results", {}), **more)["state"])

    return of


def last(steps: Iterator[Step]) -> Session:
    *_, step = steps
    return step.session


def test_a_full_run_makes_the_takes_of_all_methods(steps: list[Step], session: Session, synthesizer: Synthesizer) -> None:
    assert steps[0].changed
    assert any(step.live and step.live.pieces for step in steps)
    assert tuple(session.cards) == METHODS
    assert not session.outdated
    for method, card in session.cards.items():
        alone = synthesizer.take(TEXT, SETTINGS.for_method(method), "two")
        assert card.take.tokens == alone.tokens
        assert np.abs(card.with_sound().audio - alone.audio).max() < 1e-4
        stored = read_stored(card.sound)
        assert (stored.text, stored.settings) == (TEXT, card.take.settings)
    texts = share.texts_of(session.cards["pcg"], Origin.of(synthesizer.voice), synthesizer.voice)
    assert json.loads(texts["json"])["settings"]["theta"] == 0.3
    compile(texts["python"], "snippet", "exec")


def test_a_method_runs_again_beside_ar_and_the_take_before_is_a_lane_of_its_own(
    speaker: Speaker, session: Session, value: Callable[..., dict[str, object]]
) -> None:
    again = last(generate(speaker, replace(REQUEST, settings=SETTINGS.with_(theta=0.5), method="pcg"), session))
    assert again.cards["pcg"].take.settings.theta == 0.5
    assert again.cards["pcg"].speed_up is not None
    assert again.cards["sd"] is session.cards["sd"]
    assert not again.outdated
    assert [shown.take.settings.method for shown in again.history].count("ar") == 1
    number = session.cards["pcg"].number
    state = value(again.holding(number))
    assert (state["hand"], state["lanes"][-1]["key"], state["lanes"][-1]["number"]) == (number, "kept", number)
    assert "theta 0.3" in state["lanes"][-1]["knobs"]


def test_cards_of_another_text_are_marked_and_what_a_stopped_run_has_finished_is_named(
    speaker: Speaker, session: Session
) -> None:
    other = last(generate(speaker, replace(REQUEST, text="hello, yes!", method="sd"), session))
    assert other.outdated == {"ssd", "pcg"}
    assert stopped(other) == "Stopped. Finished: AR, SD."
    assert stopped(None) == "Stopped before a take was finished."


def test_only_exact_methods_run_where_that_is_asked(speaker: Speaker, synthesizer: Synthesizer, tmp_path: Path) -> None:
    exact = replace(speaker, synthesizer=Synthesizer(synthesizer.voice, tmp_path, exact_only=True))
    assert tuple(last(generate(exact, REQUEST, Session())).cards) == EXACT
    with pytest.raises(PCGError, match="method is 'pcg', but must be ar or sd, as only rules"):
        list(generate(exact, replace(REQUEST, method="pcg"), Session()))


def test_takes_in_turns_have_the_same_tokens(speaker: Speaker, session: Session, synthesizer: Synthesizer) -> None:
    service = SpeechService(synthesizer, rows=8, positions=512, in_turns=True)
    turned = last(generate(replace(speaker, service=service), REQUEST, Session()))
    service.close()
    assert {k: c.take.tokens for k, c in turned.cards.items()} == {k: c.take.tokens for k, c in session.cards.items()}


def test_bad_requests_are_one_sentence(speaker: Speaker) -> None:
    for change, told in (
        ({"text": "[pause:1]"}, "some English text"), ({"text": "😀🎉"}, "must be English"), ({"text": "x" * 5001}, "5,001"),
        ({"voice": "nobody"}, "voice is 'nobody'"), ({"method": "best"}, "method is 'best'"),
        ({"recording": "there.wav"}, "confirm that the speaker agrees"),
    ):  # fmt: skip
        with pytest.raises(PCGError, match=told):
            next(generate(speaker, replace(REQUEST, **change), Session()))


def test_a_recording_speaks_and_its_words_are_recognised(speaker: Speaker, synthesizer: Synthesizer, tmp_path: Path) -> None:
    rate = synthesizer.voice.codec.sample_rate
    path = tmp_path / "voice.wav"
    write_wav(path, 0.2 * np.sin(np.arange(3 * rate) * 0.05).astype(np.float32), rate)
    request = replace(REQUEST, text="yes", recording=str(path), consent=True, method="sd")
    heard = replace(speaker, transcribe=lambda samples: "hello")
    shown = last(generate(heard, request, Session())).cards["sd"]
    assert shown.reference.text == "hello"
    assert not share.link_of(shown, Origin.of(synthesizer.voice), synthesizer.voice.references)["link"]


def test_a_bad_recording_is_told_at_the_upload(synthesizer: Synthesizer, tmp_path: Path) -> None:
    rate = synthesizer.voice.codec.sample_rate
    for seconds, level, hertz, told in (
        (3, 0, 5_000, "No speech"), (0.2, 0.3, 5_000, "too short"), (3, 40, 5_000, "clipped"), (3, 0.3, 200, "3,700 Hz"),
        (50, 0.3, 5_000, "long"),
    ):  # fmt: skip
        time = np.arange(int(seconds * rate)) / rate
        voice = level * np.sin(2 * np.pi * hertz * time) * (1 + np.sin(2 * np.pi * 3 * time)) / 2
        write_wav(tmp_path / "voice.wav", voice.clip(-1, 1).astype(np.float32), rate)
        assert told in recording_note(synthesizer, str(tmp_path / "voice.wav"))
    assert recording_note(synthesizer, None) == ""


def test_a_silent_or_tiny_take_claims_no_speed(synthesizer: Synthesizer) -> None:
    take = synthesizer.take(TEXT, SETTINGS, "two")
    tiny = replace(take, rounds=take.rounds[:1])
    assert speed_up(tiny, take) is None
    assert speed_up(take, tiny) is None


def test_the_history_is_bounded_and_a_take_comes_back(synthesizer: Synthesizer) -> None:
    take, session = synthesizer.take("yes", SETTINGS, "two"), Session()
    for seed in range(REMEMBERED + 3):
        session = session.with_take(ShownTake.of(replace(take, settings=SETTINGS.with_(seed=seed))))
    assert [kept.number for kept in session.history] == list(range(4, REMEMBERED + 4))
    held = session.holding(5)
    assert held.in_hand("pcg").take.settings.seed == 4
    for number in (1, "5", True, None, 10**30):
        with pytest.raises(InputError, match="number of a take in the history"):
            session.holding(number)


def test_the_value_has_every_round_and_what_was_heard(session: Session, value: Callable[..., dict[str, object]]) -> None:
    for shown in session.cards.values():
        session = session.with_transcript(shown.sound, "the brown")
    state = value(session)
    take = session.cards["pcg"].with_sound()
    lane = {lane["key"]: lane for lane in state["lanes"]}["pcg"]
    assert lane["calls"] == len(lane["rounds"]) == len(take.rounds)
    assert [token for _, _, tokens in lane["rounds"] for token, *_ in tokens] == list(take.tokens)
    assert [len(drafted) for _, drafted, _ in lane["rounds"]] == [len(r.drafted) for r in take.rounds]
    test = next(test for _, _, tokens in lane["rounds"] for *_, test in tokens if test)
    assert len(test) == 10
    assert (lane["heard"], lane["errors"], lane["length"]) == ("the brown", 3, 5)
    assert lane["wrong"] == [False, True, False, True, True]
    assert value(session.holding(1))["lanes"][-1]["key"] != "kept"  # a card's take is a lane already


def test_judges_stop_when_another_run_begins(speaker: Speaker, session: Session) -> None:
    turn, heard = Turn(), gr.State()
    origin = Origin.of(speaker.synthesizer.voice)
    tab = Listen(speaker, FakeJudges, lambda session, hand: {}, origin, {}, gr.HTML(), heard, gr.Radio([]))
    assert [len(update[heard].heard) for update in tab.judge("pcg", session, turn)] == [1, 2, 3, 4]
    judged = tab.judge("pcg", session, turn)
    again = next(judged)[heard]
    turn.begin(session)
    assert list(judged) == []
    assert len(list(tab.judge("pcg", again, turn))) == 3  # and none twice


def test_the_verdict_names_the_winner_with_at_most_two_numbers_first() -> None:
    results = {"ar": Measured(200, 1.0, 0.2), "ssd": Measured(200, 1.31, 0.21), "pcg": Measured(200, 1.29, 0.205)}
    first, second = verdict_lines(Session(), results)
    assert first == "Over 200 sentences SSD won: 1.31 times as fast as AR."
    assert second == "PCG 1.29 ×. Words misheard: AR 20 %, SSD 21 %, PCG 20.5 %."
    *_, floored = verdict_lines(Session(), results | {"floor": Measured(50, 1.0, 0.031)})
    assert floored.endswith("original speech by the same judge 3.1 %.")
    first, *_ = verdict_lines(Session(), results | {"membership": Measured(200, 1.4, 0.2)})
    assert first == "Over 200 sentences the large model's top 50 won: 1.40 times as fast as AR."
    assert verdict_lines(Session(), {}) == []


def test_results_are_those_of_this_voice_at_the_page_s_settings(tmp_path: Path) -> None:
    def row(setting: str, speed: float | None, nats: float | None = None) -> dict[str, object]:
        figures = {"speed-up": speed and {"value": speed}, "NLL to AR, nats": nats and {"value": nats}}
        return {"setting": setting, "n": 9, "WER %": {"value": 0.1}, **figures}

    rows = [row("original", None), row("AR", 1.0), row("PCG, theta 0.9", 2.0), row("PCG, theta 0.3", 1.4, 0.5)]
    tables = [{"name": name, "rows": rows} for name in ("main", "overview")] + [{"name": "claims", "rows": []}]
    (tmp_path / "results.json").write_text(json.dumps({"made": {"voice": ["mine"]}, "tables": tables}))
    floor = Measured(9, 1.0, 0.1)
    assert shipped(("mine",), tmp_path) == {"ar": floor, "pcg": Measured(9, 1.4, 0.1, 0.5), "floor": floor}
    assert shipped(("other",), tmp_path) == {}


def test_a_take_is_studied(judged: Synthesizer, session: Session, value: Callable[..., dict[str, object]]) -> None:
    studied = study_of(judged, session, "pcg")
    assert studied["number"] == session.cards["pcg"].number
    assert value(session, study=studied)["study"]["curves"] == studied["curves"]
    curves = {curve["name"]: curve["values"] for curve in studied["curves"]}
    assert set(curves) >= {"M50", "M25", "M10"}
    assert len(curves["M10"]) == len(session.cards["pcg"].take.tokens)
    assert set(studied["estimates"]) == {"PCG, theta", "SSD, beta", "PCG, lookahead"}
    assert studied["mel"]["picture"].startswith("data:image/webp;base64,")
    assert study_of(judged, Session(), "pcg") is None
    lost = replace(session, cards={"pcg": replace(session.cards["pcg"], sound=Path("gone.wav"))})
    with pytest.raises(PCGError, match="no longer kept"):
        study_of(judged, lost, "pcg")


@pytest.fixture
def stored(synthesizer: Synthesizer) -> Stored:
    settings = Settings("ssd", theta=0.123456789 + 0.2, beta=0.35, seed=2**32 - 1, sampler="ras", top_p=0.9)
    text, origin = 'It costs $4.99 & "more"; [pause:1] né #1?', Origin.of(synthesizer.voice)
    return Stored(text=text, voice="two", settings=settings, origin=origin, streamed=True)


def test_a_link_holds_a_take_to_the_last_digit_and_a_damaged_one_is_one_sentence(stored: Stored) -> None:
    query = write_link(stored)
    again = read_link(query)
    assert (again.text, again.voice, again.settings, again.streamed) == (stored.text, stored.voice, stored.settings, True)
    assert stored.origin.digest.startswith(again.origin.digest)
    assert len(query) < 400
    assert query.isascii()
    assert read_link("round=3&step=2") is None
    damages = {"seed=": "seed=x", "theta=": "theta=9", "digest=": "digest=zz", "sampler=ras": "sampler=1", "voice=": "v="}
    for bad in (*(query.replace(*damage) for damage in damages.items()), "text=" + "x" * 70_000, "text=a" + "&x=" * 99):
        with pytest.raises(InputError):
            read_link(bad)


def test_what_is_brought_moves_the_controls(stored: Stored) -> None:
    values = share.controls_of(share.brought({"link": write_link(stored)}), ("two",))
    assert (values["text"], values["voice"], values["recording"], values["beta"]) == (stored.text, "two", None, 0.35)
    assert "voice" not in share.controls_of(stored, ("another",))
    assert share.brought({"file": stored.to_json()}) == stored
    preset = share.presets()[0]
    settings = share.brought({"settings": preset["settings"]})
    assert "seed" not in share.controls_of(settings, ())
    for bad in (None, 7, {}, {"link": "x=1"}, {"file": "{"}, {"settings": {"theta": 9}}, {"settings": {"method": "best"}}):
        with pytest.raises(InputError):
            share.brought(bad)


def test_what_to_expect_of_a_shared_take_is_said_as_text(stored: Stored, synthesizer: Synthesizer) -> None:
    odd = stored.with_(voice="<img>", settings=stored.settings.with_(sampler="plain", repetition_penalty=1.5))
    told = share.caveats(odd, stored.origin.with_(digest="0" * 64), ("two",))
    assert "The voice &lt;img&gt; is not available here" in told
    assert "repetition penalty cannot be set" in told
    assert "other weights" in told


def test_the_example_is_recorded_and_read_back(synthesizer: Synthesizer, tmp_path: Path) -> None:
    write_example(tmp_path, synthesizer, "fox", "two", SETTINGS, 1, FakeJudges(), ["hello"], ["yes"])
    example = read_example(tmp_path)
    assert example.idea["versions"][0]["name"] == "as decoded"
    assert example.idea["versions"][0]["share"] == 0
    assert example.idea["over"]["n"] == 1
    shown = example_value(example)
    assert len(shown["recorded"]) == 3 + 2 * shown["pairs"] == 7
    assert all(shown["recorded"])
    assert example.session.cards["pcg"].recorded
    assert read_example(tmp_path / "nowhere") is None
    assert example_value(None)["pairs"] == 0
    (tmp_path / "pcg.wav").write_bytes(b"")
    with pytest.raises(AssetError):
        read_example(tmp_path)


def test_a_take_of_the_history_is_used_with_its_method(address: str) -> None:
    raw = Raw(address)
    stage, _, hand, *_ = raw.ask("use", raw.usual("use"), {"number": 1}).data
    assert (hand, json.loads(stage["value"]["state"] if "value" in stage else stage["state"])["hand"]) == ("ar", 1)


def test_settings_out_of_range_are_one_sentence(address: str) -> None:
    raw = Raw(address)
    labels = [component["props"].get("label") for component in raw.inputs("generate")]
    for label, wrong in (("Seed", -1), ("Seed", 99999999999), ("Seed", 1.5), ("Theta", None), ("Theta", 5)):
        usual = raw.usual("generate")
        usual[labels.index(label)] = wrong
        assert raw.ask("generate", usual).told.startswith(f"{label} must be a ")


def test_a_run_that_replaces_another_begins_with_its_takes_and_stop_keeps_them_for_the_page(session: Session) -> None:
    turn, before = Turn(), Session()
    first, held = turn.begin(before)
    assert held is before
    turn.session = session
    turn.halt()
    second, held = turn.begin(before)
    assert (second > first, held is session) == (True, True)
    turn.end(first)  # an earlier run's end is not that of the current one
    turn.stop()
    assert (turn.stopped is session, turn.session) == (True, None)
    number, _ = turn.begin(session)
    turn.end(number)
    turn.stop()
    assert turn.stopped is None
