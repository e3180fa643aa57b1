"""Replicas under Ray Serve, asked through the endpoint. Skipped where Ray is not installed, but for what is said then."""

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Semaphore
from unittest.mock import MagicMock

import numpy as np
import openai
import pytest

from pcg.cli import main
from pcg.errors import InputError, PCGError
from pcg.places import PROJECT
from pcg.serving.replicas import LOST, Replicas
from pcg.serving.speech_service import Offer
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from tests.serving.served import serve

KEY = "a key, of any kind"
TEXT = "hello, is this one sentence? yes!"
USUAL = {"model": "tiny", "voice": "one", "input": TEXT, "response_format": "wav"}
EXTRA = {"method": "pcg", "theta": 0.5, "lookahead": 2, "seed": 7}
LONG = {**USUAL, "input": ". ".join([TEXT] * 25)}
PATIENCE_SECONDS = 180


def test_without_ray_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["serve", "--ray", "--port", "0"]) == 2
    how = 'pip install -r requirements-cluster.txt in a checkout, pip install "pcg-lab[cluster] @ git+URL" elsewhere'
    assert capsys.readouterr().err == f"pcg: Ray is not installed: {how}.\n"


def stand_in(offer: Offer | PCGError, ours: bool, monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """What stands for Ray with two cores, and for a deployment whose replicas answer with `offer`."""
    ray = MagicMock()
    ray.cluster_resources.return_value = {"CPU": 2}
    ray.serve.run.return_value.offer.remote.return_value.result.return_value = offer
    ray.is_initialized.return_value = not ours
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.serve", ray.serve)
    return ray


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_replicas_end_with_their_server_on_a_cluster_that_goes_on(
    ours: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = PCGError("There is no such voice.") if fails else Offer(("pcg",), ("one",), 16_000, 2)
    ray = stand_in(offer, ours, monkeypatch)
    with pytest.raises(PCGError, match="no such voice") if fails else nullcontext():
        Replicas(2, "embedded", app="mine").close()
    assert ray.serve.run.call_args.kwargs["name"] == "mine"
    ray.serve.delete.assert_called_once_with("mine")
    assert ray.shutdown.call_count == ours


def test_an_app_of_others_is_left_alone_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = stand_in(PCGError("It is never asked."), True, monkeypatch)
    with pytest.raises(InputError, match="replicas is 3"):
        Replicas(3, "embedded", app="theirs")
    ray.serve.run.assert_not_called()
    ray.serve.delete.assert_not_called()
    ray.shutdown.assert_called_once()


def test_a_number_of_replicas_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["--replicas", "2"], "replicas is 2"),
        (["--ray", "--replicas", "0"], "replicas is '0', but must be at least 1."),
    ):
        assert main(["serve", *words]) == 2
        assert capsys.readouterr().err.startswith(f"pcg: {told}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    pytest.importorskip("ray.serve")
    import ray

    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init("local", num_cpus=3, runtime_env={"env_vars": {"PYTHONPATH": str(PROJECT)}}, **quiet)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def replicas(cluster: None, tiny_voice_folder: Path) -> Iterator[Replicas]:
    with closing(Replicas(2, str(tiny_voice_folder))) as replicas:
        yield replicas


@pytest.fixture(scope="module")
def address(replicas: Replicas) -> Iterator[str]:
    yield from serve(replicas, api_key=KEY, in_flight=5)


@pytest.fixture(scope="module")
def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0, timeout=PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_take_is_streamed_and_is_the_one_without_ray(client: openai.OpenAI, tiny_voice_folder: Path, tmp_path: Path) -> None:
    with client.audio.speech.with_streaming_response.create(**USUAL, extra_body=EXTRA) as answer:
        pieces = list(answer.iter_bytes(chunk_size=None))
    samples = np.frombuffer(b"".join(pieces)[44:], "<i2") / 32768
    synthesizer = Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path)
    *_, take = synthesizer.speak(TEXT, Settings("pcg", theta=0.5, lookahead=2, seed=7), "one", stream=True)
    assert len(pieces) > 2
    np.testing.assert_allclose(samples, take.audio.clip(-1, 1), atol=2 / 32768)
    with pytest.raises(openai.BadRequestError, match="voice is 'nobody', but must be one of one, two") as error:
        client.audio.speech.create(**USUAL | {"voice": "nobody"})
    assert error.value.param == "voice"


def kill() -> None:
    """End one of the two replicas, whatever it does."""
    import ray

    deadline, found = time.monotonic() + PATIENCE_SECONDS, []
    while len(found) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        found = [each for each in ray.util.list_named_actors(True) if each["name"].startswith("SERVE_REPLICA::pcg#")]
    ray.kill(ray.get_actor(found[0]["name"], found[0]["namespace"]))


def last_event(client: openai.OpenAI, begun: Semaphore) -> dict[str, object]:
    with client.audio.speech.with_streaming_response.create(**LONG, stream_format="sse") as answer:
        lines = (line for line in answer.iter_lines() if line)
        next(lines)
        begun.release()
        *_, last = lines
    return json.loads(last.removeprefix("data: "))


@pytest.mark.slow
def test_when_a_replica_is_killed_its_streams_tell_so_and_the_other_one_speaks_on(client: openai.OpenAI) -> None:
    begun = Semaphore(0)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(last_event, client, begun) for _ in range(4)]
        for _ in asked:
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        kill()
        assert len(client.audio.speech.create(**USUAL, extra_body={"stream": False}).content) > 1000
    told = [each.result() for each in asked]
    assert {event["type"] for event in told} == {"speech.audio.done", "error"}
    assert {event["error"]["message"] for event in told if event["type"] == "error"} == {LOST}


@pytest.mark.slow
def test_what_hinders_the_replicas_is_one_sentence(replicas: Replicas) -> None:
    with pytest.raises(InputError, match="replicas is 4, but must be at most 3, for which Ray has cores"):
        Replicas(4, "embedded", app="more")
    with pytest.raises(PCGError, match="nowhere/at-all"):
        Replicas(1, "nowhere/at-all", app="none")
