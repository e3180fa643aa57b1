"""OpenAI's speech endpoint, asked by OpenAI's own client."""

import io
import json
import time
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import av
import httpx
import numpy as np
import openai
import pytest
import soundfile
import soxr
from scipy.signal import correlate

from pcg.serving.encoding import Tempo
from pcg.serving.openai import MEDIA, STAND_INS
from pcg.serving.speech_service import Lost, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round, Sound, Take
from tests.serving.served import asked, serve

KEY = "a key, of any kind"
TEXT = "hello, is this one sentence? yes!"
USUAL = {"model": "tiny", "input": TEXT, "voice": "one", "response_format": "wav"}
LONG = {**USUAL, "input": ". ".join([TEXT] * 8)}
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


def samples_of(sound: httpx.Response | bytes) -> tuple[int, np.ndarray]:
    """The rate of an encoded sound, and its samples [N]."""
    content = sound if isinstance(sound, bytes) else sound.content
    with av.open(io.BytesIO(content)) as file:
        frames = [frame for frame in file.decode(audio=0)]
    samples = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
    return frames[0].sample_rate, samples / 32768 if samples.dtype == np.int16 else samples


def test_openais_client_gets_the_very_take(client: openai.OpenAI, synthesizer: Synthesizer) -> None:
    spoken = client.audio.speech.create(**USUAL, extra_body={**EXTRA, "stream": False})
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
    assert size % 2 == 0


def test_a_stream_of_events_ends_with_the_figures(client: openai.OpenAI, address: str) -> None:
    with client.audio.speech.with_streaming_response.create(**USUAL, stream_format="sse", extra_body=EXTRA) as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    done = events[-1]
    usage, take = done["usage"], done["take"]
    assert (done["type"], take["seed"], usage["output_tokens"]) == ("speech.audio.done", 7, take["tokens"])
    assert take["tokens"] > 0
    whole = asked(address, input=TEXT, **EXTRA, stream=False)
    assert json.loads(whole.headers["x-pcg-usage"]) == usage
    drafted, tested, accepted = (usage[f"{what}_by_position"] for what in ("drafted", "tested", "accepted"))
    assert drafted[0] == tested[0] >= tested[1] == accepted[0] >= accepted[1] > 0
    assert sum(accepted) / sum(drafted) == pytest.approx(take["acceptance_rate"], abs=1e-3)


@pytest.mark.parametrize("count", [pytest.param(4, id="few"), pytest.param(20, marks=pytest.mark.slow, id="many")])
def test_what_is_encoded_and_streamed_is_the_whole_sound(address: str, count: int) -> None:
    """Compared with the WAV of the same take, to the last tenth of a second."""
    for seed in range(count):
        name = ("mp3", "opus", "aac", "flac")[seed % 4]
        take = {**EXTRA, "input": "hello, yes!", "seed": seed}
        whole = asked(address, **take, stream=False)
        rate, sound = samples_of(whole)
        assert len(sound) / rate == pytest.approx(float(whole.headers["x-pcg-audio-seconds"]), abs=0.001)
        with httpx.stream(
            "POST", f"{address}/v1/audio/speech", json={**USUAL, **take, "response_format": name}, timeout=60
        ) as answer:
            pieces = [piece for piece in answer.iter_raw() if piece]
        assert answer.headers["content-type"] == MEDIA[name]
        assert len(pieces) > 1
        decoded_rate, decoded = samples_of(b"".join(pieces))
        decoded = soxr.resample(decoded, decoded_rate, rate)
        lag = int(correlate(decoded, sound).argmax()) - len(sound) + 1
        assert 0 <= lag < 2_200, name
        assert len(decoded) - lag >= len(sound) - 2, name
        end = decoded[lag:][: len(sound)][-rate // 10 :]
        assert np.corrcoef(end, sound[-rate // 10 :][: len(end)])[0, 1] > 0.9, name


def test_a_wav_has_true_sizes_unless_it_is_streamed(address: str) -> None:
    streamed, whole = asked(address, **EXTRA).content, asked(address, **EXTRA, stream=False).content
    assert streamed[44:] == whole[44:]
    assert streamed[4:8] == streamed[40:44] == b"\xff" * 4
    with wave.open(io.BytesIO(whole)) as file:
        assert len(file.readframes(file.getnframes())) == 2 * file.getnframes() == len(whole) - 44
    assert int.from_bytes(whole[4:8], "little") == len(whole) - 8


@pytest.mark.parametrize("speed", [0.5, 1.3, 2.0])
def test_another_speed_is_another_length_at_the_same_pitch(address: str, speed: float) -> None:
    usual, other = (samples_of(asked(address, input=TEXT, **EXTRA, speed=each, stream=False)) for each in (1, speed))
    assert len(other[1]) == pytest.approx(len(usual[1]) / speed, abs=0.03 * usual[0])
    tone = np.sin(2 * np.pi * 220 * np.arange(16_000) / 16_000).astype(np.float32)
    tempo = Tempo(speed, 16_000)
    made = np.concatenate([tempo.push(tone[:9_000]), tempo.push(tone[9_000:]), tempo.finish()])
    assert np.abs(np.fft.rfft(made)).argmax() * 16_000 / len(made) == pytest.approx(220, abs=2)


def test_models_voices_and_health_are_told(client: openai.OpenAI, address: str) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", *STAND_INS]
    assert {model.root for model in client.models.list()} == {"tiny"}
    assert client.models.retrieve("tiny").owned_by == "pcg-lab"
    voices = httpx.get(f"{address}/v1/audio/voices").json()["voices"]
    assert voices[:2] == [{"id": "one", "name": "one"}, {"id": "two", "name": "two"}]
    assert {"id": "alloy", "name": "alloy", "stands_for": "one"} in voices
    assert httpx.get(f"{address}/health").json()["status"] == "ok"


def test_the_meters_count_what_was_spoken(address: str) -> None:
    def told(name: str) -> float:
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    names = ["pcg_tokens_total", 'pcg_takes_total{method="sd"}', 'pcg_requests_total{status="400"}']
    names += [f'pcg_{what}_tokens_total{{position="2",rule="sd-block"}}' for what in ("drafted", "tested", "accepted")]
    before = [told(name) for name in names]
    answer = asked(address, method="sd", verification="block", stream=False)
    usage = json.loads(answer.headers["x-pcg-usage"])
    asked(address, method="magic")
    counts = [usage[f"{what}_by_position"] for what in ("drafted", "tested", "accepted")]
    changes = [told(name) - old for name, old in zip(names, before, strict=True)]
    assert changes == [int(answer.headers["x-pcg-tokens"]), 1, 1, *(each[1] for each in counts)]


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
        failing.audio.speech.create(**LONG, extra_body={"stream": False})
    assert (error.value.status_code, error.value.code) == (503, "replica_lost")


def test_what_breaks_off_ends_with_the_error_or_does_not_look_whole(failing: openai.OpenAI) -> None:
    with failing.audio.speech.with_streaming_response.create(**LONG, stream_format="sse") as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert [event["type"] for event in events] == ["speech.audio.delta", "speech.audio.delta", "error"]
    assert events[-1]["error"] == {"message": "It is gone.", "type": "server_error", "param": None, "code": "replica_lost"}
    broken = pytest.raises(Exception, match="without sending complete message body")
    with failing.audio.speech.with_streaming_response.create(**LONG) as answer, broken:
        list(answer.iter_bytes(chunk_size=None))


def test_many_at_once_each_get_their_own(address: str) -> None:
    def take(seed: int) -> bytes:
        return asked(address, input="yes", **{**EXTRA, "seed": seed}, stream=False).content

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(take, range(16)))
    assert together == [take(seed) for seed in range(16)]
    assert len(set(together)) == 16
