"""What public clients of OpenAI's speech endpoint send, written anew from their documentation; browsers; exported voices."""

import io
from collections.abc import Iterator
from pathlib import Path

import av
import httpx
import numpy as np
import pytest
import soundfile

from pcg.cli import main
from pcg.serving.openai import MEDIA, SPEECH, STAND_IN_VOICES, STAND_INS, VOICES
from pcg.serving.protection import Limits
from pcg.serving.speech_service import SpeechService
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from tests.serving.served import Silent, serve

TEXT = "hello, yes!"
PAGE = "https://page.example"
BEARER = {"authorization": "Bearer sk-none"}
# By client: headers, body, and the fields that are ignored.
CLIENTS = {
    # platform.openai.com/docs/guides/text-to-speech, the example for curl
    "curl": (BEARER, {"model": "gpt-4o-mini-tts", "input": TEXT, "voice": "coral", "instructions": "Calm."}, "instructions"),
    # github.com/openai/openai-python, audio.speech.create: unset fields are left out
    "openai-python": (
        {**BEARER, "accept": "application/octet-stream", "x-stainless-lang": "python", "user-agent": "OpenAI/Python 3.54.0"},
        {"input": TEXT, "model": "tts-1", "voice": "alloy", "response_format": "flac", "speed": 1.25, "stream_format": "audio"},
        None,
    ),
    # github.com/SillyTavern/SillyTavern, extensions/tts/openai-compatible.js
    "SillyTavern": (
        {"authorization": "Bearer"},
        {"model": "tts-1", "input": TEXT, "voice": "onyx", "response_format": "mp3", "speed": 1},
        None,
    ),
    # docs.openwebui.com, OpenAI TTS: the browser's body, with model and voice of the settings
    "Open WebUI": ({**BEARER, "x-openwebui-user-name": "Ada"}, {"model": "tts-1-hd", "input": TEXT, "voice": "shimmer"}, None),
    # docs.litellm.ai/docs/text_to_speech: what is unset may come as null
    "LiteLLM": (
        BEARER,
        {"model": "tts-1", "input": TEXT, "voice": "fable", "response_format": None, "speed": None, "instructions": None},
        None,
    ),
    # github.com/remsky/Kokoro-FastAPI, its web page
    "Kokoro-FastAPI": (
        {},
        {
            "model": "kokoro", "input": TEXT, "voice": "af_heart", "response_format": "aac", "download_format": "mp3",
            "stream": True, "speed": 1, "lang_code": "a", "normalization_options": {"normalize": True},
        },
        "download_format, lang_code, normalization_options",
    ),
    # docs.pipecat.ai, OpenAITTSService: raw samples at 24 kHz
    "pipecat": (BEARER, {"input": TEXT, "model": "gpt-4o-mini-tts", "voice": "ballad", "response_format": "pcm"}, None),
    # docs.livekit.io/agents, the plugin of OpenAI
    "LiveKit": (
        BEARER, {"input": TEXT, "model": "gpt-4o-mini-tts", "voice": "ash", "response_format": "opus", "speed": 1.0}, None
    ),
}  # fmt: skip


def asked(address: str, **changes: object) -> httpx.Response:
    return httpx.post(f"{address}{SPEECH}", json={"input": TEXT, "voice": "one", **changes}, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def open_address(synthesizer: Synthesizer, folder: Path) -> Iterator[str]:
    """Where the small voice speaks to pages of others, takes recordings, and refuses unknown fields and rules."""
    exact = Synthesizer(synthesizer.voice, folder / "cache", exact_only=True)
    options = {"strict": True, "voices": folder / "voices", "origins": [PAGE], "limits": Limits(voices=2)}
    yield from serve(SpeechService(exact, rows=2, positions=1400), **options)


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that are left out: from some the small voice ends before it speaks."""
    monkeypatch.setattr("pcg.serving.openai.secrets.randbelow", lambda _: 7)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_served(address: str, name: str) -> None:
    headers, body, ignored = CLIENTS[name]
    answer = httpx.post(f"{address}{SPEECH}", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text[:300]
    assert answer.headers.get("x-ignored") == ignored
    kind = body.get("response_format") or "mp3"
    assert answer.headers["content-type"] == MEDIA[kind]
    if kind == "pcm":
        samples = np.frombuffer(answer.content, "<i2")
    else:
        with av.open(io.BytesIO(answer.content)) as file:
            samples = np.concatenate([frame.to_ndarray().reshape(-1) for frame in file.decode(audio=0)])
    assert len(samples) > 2_000
    assert np.abs(samples).max() > 0


def test_names_of_other_models_and_voices_stand_for_ours(address: str) -> None:
    own = ("one", "two")
    names = {name: own[number % len(own)] for name, number in STAND_IN_VOICES.items()}
    assert {"alloy", "verse", "af_heart", *"ash ballad coral echo fable nova onyx sage shimmer".split()} <= names.keys()
    own = {voice: asked(address, voice=voice, seed=1, stream=False).content for voice in own}
    for model, name in zip((*STAND_INS, ""), ("alloy", "coral", "echo", "verse", "sage"), strict=True):
        told = asked(address, model=model, voice=name, seed=1, stream=False)
        assert told.content == own[names[name]], name


def test_unknown_fields_are_named_or_refused(address: str, open_address: str) -> None:
    odd = {"colour": "red", "Größe\n ": 1, "": 2, "nothing": None}
    assert asked(address, **odd).headers["x-ignored"] == "?, Gr??e??, colour"
    error = asked(open_address, **odd).json()["error"]
    assert (error["param"], error["message"][:10]) == ("body", "body is 'w")
    assert asked(open_address, nothing=None, speed=None, method=None).status_code == 200


def test_only_exact_rules_where_that_is_asked(open_address: str) -> None:
    for method in ("ssd", "pcg"):
        error = asked(open_address, method=method).json()["error"]
        reason = "as only rules that keep the target's distribution are allowed here"
        assert error["message"] == f"method is '{method}', but must be ar or sd, {reason}."
    for settings in ({"method": "ar"}, {"method": "sd", "verification": "block"}, {"method": "sd", "top_k": 5}):
        assert asked(open_address, **settings).status_code == 200
    assert asked(open_address).headers["x-pcg-method"] == "sd"


def test_a_page_of_another_origin_is_served_where_it_is_named(address: str, open_address: str) -> None:
    ask = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for where, status, origin in ((open_address, 200, PAGE), (address, 403, None)):
        assert httpx.options(f"{where}{SPEECH}", headers=ask).headers.get("access-control-allow-origin") == origin
        answer = httpx.post(f"{where}{SPEECH}", json={"input": TEXT, "voice": "one"}, headers={"origin": PAGE})
        assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (status, origin)
    other = {"origin": "https://evil.example"}
    assert httpx.post(f"{open_address}{SPEECH}", json={}, headers=other).status_code == 403


def test_methods_that_are_not_there_are_told(address: str) -> None:
    for path in ("/v1/models", "/v1/models/tiny", VOICES, "/health", "/metrics"):
        answer = httpx.head(f"{address}{path}")
        assert (answer.status_code, answer.content) == (200, b"")
    for path, allowed in ((SPEECH, {"POST"}), (VOICES, {"GET", "HEAD", "POST"}), ("/health", {"GET", "HEAD"})):
        answer = httpx.delete(f"{address}{path}")
        assert (answer.status_code, answer.json()["error"]["type"]) == (405, "invalid_request_error")
        assert set(answer.headers["allow"].split(", ")) == allowed


def recording(seconds: float) -> bytes:
    """Noise as loud as speech."""
    sound, noise = io.BytesIO(), np.random.default_rng(0).normal(0, 0.1, int(16_000 * seconds)).astype(np.float32)
    soundfile.write(sound, noise * np.sin(np.arange(len(noise)) / 1600), 16_000, format="WAV")
    return sound.getvalue()


def record(address: str, content: bytes = b"", **fields: str) -> httpx.Response:
    usual = {"name": "mine", "consent": "true", "ref_text": "hello"}
    files = {"audio_sample": ("me.wav", content or recording(3), "audio/wav")}
    return httpx.post(f"{address}{VOICES}", data=usual | fields, files=files, timeout=60)


def test_a_recording_becomes_a_voice(open_address: str, address: str, folder: Path) -> None:
    for changes, status, param in (
        ({"consent": "no"}, 400, "consent"),
        ({"name": "../x"}, 400, "name"),
        ({"name": "alloy"}, 409, "name"),
        ({"content": b"no sound"}, 400, "audio_sample"),
    ):
        answer = record(open_address, **changes)
        assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert record(open_address).json()["id"] == "mine"
    assert {"id": "mine", "name": "mine"} in httpx.get(f"{open_address}{VOICES}").json()["voices"]
    own, other = (asked(open_address, voice=voice, seed=1, stream=False).content for voice in ("mine", "one"))
    assert own[:3] == other[:3]
    assert own != other
    assert record(open_address, name="second").status_code == 200
    assert record(open_address, name="third").status_code == 507
    kept = sorted(path.name for path in (folder / "voices").rglob("*") if path.is_file())
    assert kept == ["mine.safetensors", "second.safetensors"]
    large = httpx.post(f"{open_address}{VOICES}", content=bytes(21 << 20))
    assert (large.status_code, large.json()["error"]["message"]) == (413, "An upload must have at most 20 MB.")
    assert record(address).status_code == 403


def test_an_exported_voice_speaks_on_the_command_line(
    tiny_voice_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wav, voice, out = tmp_path / "me.wav", tmp_path / "me.safetensors", tmp_path / "out.wav"
    wav.write_bytes(recording(3))
    model = ["--model", str(tiny_voice_folder)]
    assert main(["export-voice", str(wav), str(voice), "--reference-text", "hello", *model]) == 0
    assert main(["speak", "yes", "--reference", str(voice), "--out", str(out), *model]) == 0
    voice.write_bytes(b"no voice")
    capsys.readouterr()
    assert main(["speak", "yes", "--reference", str(voice), "--out", str(out), *model]) == 2
    assert "voice file is 'me.safetensors', but must be one that `pcg export-voice` wrote" in capsys.readouterr().err


class Mute(Silent):
    """Whose takes end before they have begun."""

    def __next__(self) -> Take:
        from pcg.settings import Settings

        return Take(TEXT, "one", Settings(), (), np.zeros(0, np.float32), 16_000, False, 0.0, 0.0, 0.1)


def test_a_take_without_a_token_is_an_error() -> None:
    for door in serve(Mute()):
        for changes in ({}, {"stream": False}, {"stream_format": "sse"}):
            answer = asked(door, **changes)
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, "no_speech")
