"""OpenAI's speech endpoint, asked by OpenAI's own client."""

import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import openai
import pytest
import soundfile

from pcg.serving.openai import RAW_RATE, formats
from pcg.serving.speech_service import Lost, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round, Sound, Take
from tests.serving.served import serve

KEY = "a key, of any kind"
TEXT = "hello, is this one sentence? yes!"
USUAL = {"model": "tiny", "input": TEXT, "voice": "one", "response_format": "wav"}
LONG = {**USUAL, "input": ". ".join([TEXT] * 12)}
EXTRA = {"method": "pcg", "theta": 0.5, "lookahead": 2, "seed": 7}


@pytest.fixture(scope="module")
def locked(synthesizer: Synthesizer) -> Iterator[str]:
    yield from serve(SpeechService(synthesizer), api_key=KEY)


class Failing(SpeechService):
    """Whose takes break off behind their second sound."""

    def speak(self, *text: object, **options: object) -> Iterator[Round | Sound | Take]:
        steps, sounds = super().speak(*text, **options), 0
        for step in steps:
            sounds += isinstance(step, Sound)
            if sounds > 2:
                steps.close()
                raise Lost("It is gone.")
            yield step


@pytest.fixture(scope="module")
def failing(synthesizer: Synthesizer) -> Iterator[openai.OpenAI]:
    for address in serve(Failing(synthesizer)):
        yield openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)


@pytest.fixture(scope="module")
def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)


def asked(address: str, **changes: object) -> httpx.Response:
    body = {**USUAL, **changes}
    return httpx.post(f"{address}/v1/audio/speech", content=json.dumps(body), timeout=60)


def test_openais_client_gets_the_very_take(client: openai.OpenAI, synthesizer: Synthesizer) -> None:
    spoken = client.audio.speech.create(**USUAL, extra_body={**EXTRA, "wait": True})
    samples, rate = soundfile.read(io.BytesIO(spoken.content), dtype="float32")
    *_, take = synthesizer.speak(TEXT, Settings("pcg", theta=0.5, lookahead=2, seed=7), "one", stream=True)
    assert rate == take.sample_rate
    np.testing.assert_allclose(samples, take.audio.clip(-1, 1), atol=2 / 32768)
    headers = spoken.response.headers
    assert (headers["x-pcg-method"], headers["x-pcg-seed"], headers["x-pcg-tokens"]) == ("pcg", "7", str(len(take.tokens)))
    assert 0 <= float(headers["x-pcg-acceptance-rate"]) <= 1


def test_openais_client_hears_the_first_sound_before_the_last_is_made(client: openai.OpenAI) -> None:
    long = {**LONG, "response_format": "pcm"}
    with client.audio.speech.with_streaming_response.create(**long, extra_body=EXTRA) as answer:
        begun, times, size = time.perf_counter(), [], 0
        for piece in answer.iter_bytes(chunk_size=None):
            times.append(time.perf_counter() - begun)
            size += len(piece)
    assert len(times) > 5
    assert times[0] < times[-1] / 2
    whole = client.audio.speech.create(**long, extra_body={**EXTRA, "wait": True}).content
    assert len(whole) == size
    assert size % 2 == 0


def test_a_stream_of_events_ends_with_the_figures(client: openai.OpenAI, address: str) -> None:
    with client.audio.speech.with_streaming_response.create(**USUAL, stream_format="sse", extra_body=EXTRA) as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    done = events[-1]
    assert (done["type"], done["take"]["seed"], done["usage"]["output_tokens"]) == (
        "speech.audio.done",
        7,
        done["take"]["tokens"],
    )
    assert done["take"]["tokens"] > 0


@pytest.mark.parametrize("name", formats())
def test_every_format_holds_the_whole_take(address: str, name: str) -> None:
    answer = asked(address, response_format=name, **EXTRA, wait=True)
    assert answer.status_code == 200
    seconds = float(answer.headers["x-pcg-audio-seconds"])
    if name == "pcm":
        assert len(answer.content) / 2 / RAW_RATE == pytest.approx(seconds, abs=0.01)
    else:
        samples, rate = soundfile.read(io.BytesIO(answer.content))
        assert len(samples) / rate == pytest.approx(seconds, abs=0.15)
        assert np.abs(samples).max() > 0


def test_a_wav_that_is_streamed_can_be_read_though_its_length_was_unknown(address: str) -> None:
    content = asked(address, **EXTRA).content
    whole = asked(address, **EXTRA, wait=True).content
    assert content[44:] == whole[44:]


def test_models_voices_and_health_are_told(client: openai.OpenAI, address: str) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "pcg-lab"
    assert httpx.get(f"{address}/v1/audio/voices").json()["voices"][0] == {"id": "one", "name": "one"}
    assert httpx.get(f"{address}/health").json()["status"] == "ok"


def test_the_meters_count_what_was_spoken(address: str) -> None:
    def told(name: str) -> float:
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    before = told("pcg_tokens_total"), told('pcg_takes_total{method="sd"}'), told('pcg_requests_total{status="400"}')
    tokens = int(asked(address, method="sd", wait=True).headers["x-pcg-tokens"])
    asked(address, method="magic")
    after = told("pcg_tokens_total"), told('pcg_takes_total{method="sd"}'), told('pcg_requests_total{status="400"}')
    assert [b - a for a, b in zip(before, after, strict=True)] == [tokens, 1, 1]
    assert told("pcg_first_sound_seconds_count") > 0


def test_a_key_is_asked_for(locked: str) -> None:
    for key in ("", KEY[:-1], KEY + "x", "ä"):
        answer = httpx.get(f"{locked}/v1/models", headers={"authorization": f"Bearer {key}".strip().encode()})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{locked}/v1", api_key="wrong", max_retries=0).audio.speech.create(**USUAL)
    right = openai.OpenAI(base_url=f"{locked}/v1", api_key=KEY, max_retries=0)
    assert len(right.audio.speech.create(**USUAL).content) > 1000


def test_what_is_lost_before_anything_was_sent_is_an_error_in_openais_shape(failing: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="It is gone") as error:
        failing.audio.speech.create(**LONG | {"response_format": "flac"})
    assert (error.value.status_code, error.value.code) == (503, "replica_lost")


def test_a_stream_of_events_that_breaks_off_ends_with_the_error(failing: openai.OpenAI) -> None:
    with failing.audio.speech.with_streaming_response.create(**LONG, stream_format="sse") as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert [event["type"] for event in events] == ["speech.audio.delta", "speech.audio.delta", "error"]
    assert events[-1]["error"] == {"message": "It is gone.", "type": "server_error", "param": None, "code": "replica_lost"}


def test_a_sound_that_breaks_off_does_not_look_whole(failing: openai.OpenAI) -> None:
    def told() -> float:
        lines = httpx.get(f"{str(failing.base_url)[:-3]}metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith('pcg_broken_answers_total{reason="failed"}'))

    before = told()
    broken = pytest.raises(Exception, match="without sending complete message body")
    with failing.audio.speech.with_streaming_response.create(**LONG) as answer, broken:
        list(answer.iter_bytes(chunk_size=None))
    assert told() == before + 1


def test_many_at_once_each_get_their_own(address: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda seed: asked(address, **{**EXTRA, "seed": seed}, wait=True).content, range(8)))
    alone = [asked(address, **{**EXTRA, "seed": seed}, wait=True).content for seed in range(8)]
    assert together == alone
