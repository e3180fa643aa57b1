"""What no honest visitor sends: values, texts, sounds and settings to try a page with."""

import io
import json
import struct

import numpy as np
import soundfile

from pcg.saved_take import Origin, Stored
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.raw import file_at

RATE = 16_000
MARKUP = "fox ${window.hacked = 1} `x` <img src=x onerror=alert(1)> </p><script>hack()</script>"
NO_NUMBER = (None, "0.5", float("nan"), float("inf"), -5, 10**400, [1], {}, True)
DEEP = json.loads("[" * 40 + "]" * 40)
WRONG = {
    "slider": NO_NUMBER,
    "number": NO_NUMBER[1:],
    "textbox": (5, ["text"], {}, True, file_at("/etc/passwd"), "\ud800 half a character"),
    "dropdown": ("nowhere", 5, {}, [[]], "<img src=x onerror=alert(1)>"),
    "radio": ("nowhere", 5, {}, ["pcg"]),
    "checkboxgroup": ("figures", ["nowhere"], {}, [[]]),
    "checkbox": ("true", 1, [], {}),
    "audio": ("a.wav", 5, [], {}, file_at("/etc/passwd"), file_at("http://127.0.0.1:9/a.wav")),
    "file": ("a.json", 5, {}, file_at("/etc/passwd"), [file_at("file:///etc/passwd")]),
    "json": ("\udfff", file_at("/etc/passwd"), DEEP),
    "api": ([], {}, [[]]),
}
TEXTS = {
    "long": "word " * 2000,
    "emoji": "😀" * 20,
    "right to left": "مرحبا بالعالم",
    "null": "Hello\0 there.",
    "half": "Hello \ud83d there.",
    "empty": " \n ",
}
HARMLESS = {
    "template": "Yes ${window.hacked = 1}.",
    "script": "<script>alert(1)</script> yes.",
    "braces": "Yes {{ 7 * 7 }} {% raw %}.",
    "mixed": "Yes 😀 مر, hello there.",
}


def assert_words_stay_words(page: str) -> None:
    """A page that tells MARKUP."""
    assert "<img" not in page
    assert "<script" not in page
    assert "&lt;img" in page


def sounds() -> dict[str, bytes]:
    """Files that call themselves WAV."""
    tone = (0.2 * np.sin(np.arange(RATE) * 0.05)).astype(np.float32)

    def wav(samples: np.ndarray, subtype: str = "PCM_16", rate: int = RATE) -> bytes:
        file = io.BytesIO()
        soundfile.write(file, samples, rate, subtype, format="WAV")
        return file.getvalue()

    plain = wav(tone)
    nan = tone.copy()
    nan[100] = np.nan
    return {
        "empty": b"",
        "header alone": plain[:44],
        "half a header": plain[:20],
        "one sample": wav(tone[:1]),
        "silence": wav(np.zeros(RATE, np.float32)),
        "eight channels": wav(np.stack([tone] * 8, axis=1)),
        "not numbers": wav(nan, "FLOAT"),
        "infinite": wav(np.full(RATE, np.inf, np.float32), "FLOAT"),
        "a rate of 1 Hz": wav(tone, rate=1),
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "a text": b"I am no sound.\n" * 40,
        "a page": b"<html><script>alert(1)</script></html>",
        "lengths that lie": plain[:40] + struct.pack("<I", 0xFFFFFFFF) + plain[44:],
    }


BROKEN = ("empty", "half a header", "not numbers", "infinite", "a rate of 1 Hz", "a picture", "a text", "a page")


def settings_texts(synthesizer: Synthesizer) -> dict[str, str]:
    """What is no stored take, though it looks like one."""
    good = json.loads(Stored(text="Yes.", voice="one", settings=Settings(), origin=Origin.of(synthesizer.voice)).to_json())

    def knob(value: object, name: str = "theta") -> str:
        return json.dumps({**good, "settings": {**good["settings"], name: value}})

    return {
        "unknown key": json.dumps({**good, "path": "/etc/passwd"}),
        "unknown knob": knob(1, "shell"),
        "no key": json.dumps({key: good[key] for key in ("version", "text")}),
        "no object": "[]",
        "not a number": knob(float("nan")),
        "1e400": knob(0.123).replace("0.123", "1e400"),
        "too huge to read": knob(0.123).replace("0.123", "9" * 9000),
        "a bomb": knob(0.123).replace("0.123", "[" * 5000 + "]" * 5000),
        "keys twice": json.dumps(good)[:-1] + ', "text": "' + "x" * 5_700 + '"}',
        "a word": knob("0.5"),
        "true": knob(True),
        "a wrong seed": knob(-1, "seed"),
        "a wrong method": knob("<img src=x onerror=alert(1)>", "method"),
        "a wrong voice": json.dumps({**good, "voice": "one\n"}),
        "a wrong text": json.dumps({**good, "text": "\0"}),
        "half a character": json.dumps({**good, "voice": "\udc00"}),
        "another version": json.dumps({**good, "version": 10**9}),
        "long": json.dumps({**good, "text": "x" * 20_000}),
        "no JSON": "{" * 100,
    }
