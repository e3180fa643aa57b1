"""What OpenAI's speech endpoint refuses: what no honest client sends, and more than one client may ask for at once. Every
error has OpenAI's shape."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import torch

from pcg.errors import InputError, PCGError
from pcg.serving.openai import refusal
from pcg.serving.protection import Limits
from pcg.text.prompt import Prompt
from pcg.text.reading import wordless
from tests.explorers.hostile import DEEP, NO_NUMBER, TEXTS, WRONG
from tests.serving.served import Silent, asked, serve

PATIENCE_SECONDS = 60
KNOBS = ("theta", "lookahead", "beta", "temperature", "seed")
WRONG_VALUES = {
    "input": (*TEXTS.values(), *WRONG["textbox"], DEEP, None, "wait [pause:99]", "[pause:1] yes " * 21),
    "voice": (*WRONG["dropdown"], None),
    "method": WRONG["dropdown"],
    "response_format": (*WRONG["dropdown"], "midi"),
    "stream_format": WRONG["radio"],
    "stream": WRONG["checkbox"],
    "speed": (*NO_NUMBER[1:], 0.4, 2.1),
    **{knob: NO_NUMBER[1:] for knob in KNOBS},
}
"""By field; a knob that is None is one that was left out."""


def told(answer: httpx.Response, status: int, kind: str = "invalid_request_error", param: str | None = None) -> str:
    """The one sentence of an error in OpenAI's shape."""
    assert answer.status_code == status, answer.text[:300]
    assert ("retry-after" in answer.headers) == (status in (429, 503))
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == (kind, param), error
    assert error["message"].endswith(".")
    assert len(error["message"]) < 300
    assert "\n" not in error["message"]
    return error["message"]


@pytest.mark.parametrize("field", WRONG_VALUES)
def test_a_wrong_value_is_one_sentence_that_names_its_field(address: str, field: str) -> None:
    for value in WRONG_VALUES[field]:
        assert told(asked(address, **{field: value}), 400, param=field).startswith((f"{field} is ", "pause is "))


def test_what_is_said_of_a_text_by_those_who_read_it_is_said_of_the_input() -> None:
    with pytest.raises(InputError) as no_room:
        Prompt.within(3, torch.zeros(9, dtype=torch.int64), wanted=1.0)
    for error in (no_room.value, wordless("hm")):
        body = refusal(error).body()["error"]
        assert body["param"] == "input"
        assert body["message"].startswith("input ")
    assert refusal(PCGError("text is no field here.")).body()["error"]["message"] == "text is no field here."


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"5", b"null", b"\xff\xfe", b'"text"'])
def test_a_body_that_is_no_request_is_refused(address: str, body: bytes) -> None:
    answer = httpx.post(f"{address}/v1/audio/speech", content=body)
    told(answer, 400, param="body" if body in (b"5", b"null", b'"text"') else None)


def test_other_paths_names_pages_methods_and_sizes_are_not_answered(address: str) -> None:
    assert told(httpx.get(f"{address}/docs"), 404) == "There is no such endpoint."
    told(httpx.get(f"{address}/health", headers={"host": "evil.example"}), 421)
    told(asked(address, {"origin": "http://evil.example"}), 403, "permission_error")
    told(httpx.get(f"{address}/v1/audio/speech"), 405)
    told(asked(address, input="word " * 400_000), 413)
    assert "no model 'tts-9'" in told(asked(address, model="tts-9"), 404)


@pytest.fixture
def parked() -> Silent:
    return Silent()


@pytest.fixture
def door(parked: Silent, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where it speaks, with as many requests in flight as the test is given."""
    yield from serve(parked, in_flight=request.param, limits=Limits(waiting=1 if request.param == 1 else 64))


@pytest.mark.parametrize(("door", "most"), [(None, 4), (3, 3)], indirect=["door"])
def test_one_client_may_have_all_rows_and_as_many_wait_or_as_many_as_it_is_given(parked: Silent, door: str, most: int) -> None:
    with ThreadPoolExecutor(most) as pool:
        held = [pool.submit(asked, door) for _ in range(most)]
        for _ in held:
            assert parked.begun.acquire(timeout=PATIENCE_SECONDS)
        sentence = told(asked(door), 429, "rate_limit_error")
        parked.closed.set()
    assert sentence == f"You have {most} requests here already: wait for one of them."
    assert {told(each.result(), 400) for each in held} == {"It was closed."}
    told(asked(door), 400)


@pytest.mark.parametrize("door", [1], indirect=True)
def test_clients_behind_a_trusted_proxy_are_told_apart_and_all_together_have_a_limit(parked: Silent, door: str) -> None:
    clients = [{"x-forwarded-for": f"10.0.0.{number}"} for number in range(4)]
    with ThreadPoolExecutor(3) as pool:
        held = [pool.submit(asked, door, client) for client in clients[:3]]
        for _ in held:
            assert parked.begun.acquire(timeout=PATIENCE_SECONDS)
        assert told(asked(door, clients[0]), 429, "rate_limit_error").startswith("You have 1 request here")
        assert told(asked(door, clients[3]), 429, "rate_limit_error").startswith("Too many takes are waiting")
        assert [httpx.get(f"{door}/health").json()[name] for name in ("speaking", "waiting")] == [2, 1]
        parked.closed.set()
    assert {told(each.result(), 400) for each in held} == {"It was closed."}


def test_an_error_that_nobody_foresaw_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcg.errors.LOG", tmp_path / "errors.log")
    monkeypatch.setattr("pcg.serving.openai.generate_latest", lambda registry: 1 / 0)
    for door in serve(Silent()):
        sentence = told(httpx.get(f"{door}/metrics"), 500, "server_error")
        assert sentence.startswith("Unexpected ZeroDivisionError; see reference ")
