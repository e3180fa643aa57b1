"""Hostile input through the served page: every answer is one sentence, and the server neither trips nor gives anything away."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

import app
from tests.explorers.hostile import BROKEN, HARMLESS, TEXTS, WRONG, sounds
from tests.explorers.raw import Answer, Raw, file_at


@pytest.fixture(scope="module")
def raw(address: str) -> Raw:
    return Raw(address)


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> object:
    """Whatever a test sends, the server prints no traceback."""
    yield
    assert "Traceback" not in "".join(capfd.readouterr())


def refused(answer: Answer) -> str:
    """The sentence that it was refused with: one line, of a length to be read, ending as sentences do."""
    assert answer.told is not None
    assert answer.told.endswith(".")
    assert len(answer.told) < 300
    assert "\n" not in answer.told
    assert answer.told not in ("None", "Error.")
    return answer.told


@pytest.mark.slow
def test_every_endpoint_refuses_every_wrong_kind_of_value(raw: Raw) -> None:
    asked = 0
    for name in raw.endpoints:
        usual = raw.usual(name)
        for place, component in enumerate(raw.inputs(name)):
            wrong = WRONG.get(component["type"], ())
            for value in wrong if name == "generate" else wrong[asked % len(wrong) :][:1] if wrong else ():
                refused(raw.ask(name, [*usual[:place], value, *usual[place + 1 :]]))
                asked += 1
        if usual and name in raw.public:
            few_or_many = usual[:-1] if asked % 2 else [*usual, 1]
            assert refused(raw.ask(name, few_or_many)).startswith("Request must be ")
    assert asked > 150


@pytest.mark.slow
def test_no_event_of_a_component_trips_the_server(raw: Raw) -> None:
    huge, odd = [10**400, float("inf"), -1, "x", None, [], {}], []
    for value in huge:
        odd += [value, {"token": value, "index": value, "trial": 1, "answer": value, "plays": value}]
    for name in ("locate", "choose", "use", "cast", "pick"):
        for event in odd:
            answer = raw.ask(name, raw.usual(name), event)
            if answer.told is not None:
                refused(answer)


def test_a_text_that_cannot_be_spoken_is_one_sentence(raw: Raw) -> None:
    for text in TEXTS.values():
        refused(raw.ask("generate", [text, *raw.usual("generate")[1:]]))


@pytest.mark.slow
@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_a_text_that_looks_like_code_is_spoken(raw: Raw, text: str) -> None:
    assert raw.ask("generate", [text, *raw.usual("generate")[1:]]).told is None


@pytest.mark.slow
def test_no_file_but_an_uploaded_one_is_read(raw: Raw, address: str) -> None:
    own = Path(app.__file__)
    elsewhere = ["/etc/passwd", str(own), "../../../../etc/passwd", "file:///etc/passwd", f"{address}config", "", "\0", "/"]
    elsewhere += [
        f"{Path(raw.upload('a.wav', b'')['path']).parent}/../../../etc/passwd",
        "x" * 5000,
        "http://[::1",
        "~/.bashrc",
    ]
    places = {"transcribe": (0, "sound"), "generate": (3, "recording")}
    for name, (place, field) in places.items():
        usual = raw.usual(name)
        files = [file_at(path) for path in elsewhere]
        files += [{**files[0], "is_stream": True}, {**files[0], "url": f"{address}config"}]
        for file in files:
            told = refused(raw.ask(name, [*usual[:place], file, *usual[place + 1 :]]))
            assert told == f"{field.capitalize()} must be a file that was uploaded to this page."


def test_no_file_of_the_server_is_handed_out(raw: Raw) -> None:
    own = Path(app.__file__).resolve()
    for path in ("/etc/passwd", str(own), "app.py", f"{own.parent}/pcg/../app.py", "../app.py", "file:///etc/passwd"):
        assert raw.http.get("/gradio_api/file=" + quote(path)).status_code in (403, 404)


@pytest.mark.parametrize("name", sounds())
def test_any_sound_is_heard_or_refused(raw: Raw, name: str) -> None:
    content = sounds()[name]
    sound = raw.upload("sound.wav", content)
    heard = raw.ask("transcribe", [sound, *raw.usual("transcribe")[1:]])
    assert (heard.told is not None) == (name in BROKEN)
    usual = raw.usual("generate")
    spoken = raw.ask("generate", [*usual[:2], "ar", sound, "What is said.", True, *usual[6:]])
    for answer in (heard, spoken):
        if answer.told is not None:
            refused(answer)
    assert spoken.told is not None or name in ("eight channels", "lengths that lie")


def test_requests_that_are_no_requests_are_refused(raw: Raw) -> None:
    session = '"fn_index": 0, "session_hash": "x", "data": '
    bodies = {
        "not JSON": b"\xff\xfe",
        "no object": b"[]",
        "a bomb": f"{{{session}{'[' * 100_000}{']' * 100_000}}}".encode(),
        "2 MB": f'{{{session}["{"x" * (2 << 20)}"]}}'.encode(),
        "no data": b'{"fn_index": 0, "session_hash": "x"}',
        "no such endpoint": b'{"fn_index": 100000, "session_hash": "x", "data": []}',
        "a wrong endpoint": b'{"fn_index": "x", "session_hash": "x", "data": []}',
    }
    for name, body in bodies.items():
        for path in ("queue/join", "call/generate", "call/nowhere", "component_server", "cancel", "reset"):
            assert raw.post(path, body).status_code < 500, (name, path)
        assert raw.post("run/predict", body).status_code != 200, name
        assert raw.post("queue/join", body).status_code >= 400, name
    assert "at most 1,048,576 bytes" in raw.post("queue/join", bodies["2 MB"]).text
    # Straight past the queue, two takes would be spoken at once.
    assert raw.post("run/generate", json.dumps({"data": raw.usual("generate")})).status_code == 404
