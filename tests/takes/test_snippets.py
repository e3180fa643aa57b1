"""The lines to copy really say the take again: run as a person would run them, compared sample for sample."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pcg.audio import write_wav
from pcg.cli import main
from pcg.saved_take import Origin, Stored, python_snippet, shell_snippet
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from tests.wav_comment import read_stored

BASH = shutil.which("bash")
TEXTS = (
    "Hello, is this one sentence?",
    'It\'s "$HOME", `ls` \\ and $(rm -rf nothing) !!\n\tThe quick fox; yes 🎈 café.',
    "--help, said the fox.",
    "'''\\'; import os #",
)
SETTINGS = (
    Settings("pcg", theta=0.3, seed=11),
    Settings("ssd", beta=0.15, temperature=1 / 3 + 0.4, seed=2**32 - 1),
    Settings("sd", lookahead=5, seed=4),
    Settings("ar", temperature=0.95, seed=5),
)


@pytest.fixture
def model(tiny_voice_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    return str(tiny_voice_folder)


def said(model: str, text: str, settings: Settings, stream: bool = False) -> tuple[Stored, tuple[int, ...], np.ndarray]:
    """What is stored of a take, its tokens, and its samples as a file holds them."""
    synthesizer = Synthesizer(load_voice(model))
    *_, take = synthesizer.speak(text, settings, "two", stream=stream)
    stored = Stored.of(take, Origin.of(synthesizer.voice), streamed=stream)
    write_wav(Path("expected.wav"), take.audio, take.sample_rate, stored.to_json())
    return stored, take.tokens, samples("expected.wav")


def samples(name: str) -> np.ndarray:
    return soundfile.read(name, dtype="int16")[0]


def argv_of(snippet: str) -> list[str]:
    """What a real shell makes of a command that begins with `python`."""
    script = "python() { printf '%s\\0' \"$@\"; }\n" + snippet
    run = subprocess.run([BASH, "-c", script], capture_output=True, check=True)
    assert run.stderr == b""
    return run.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "settings", "stream"), [*zip(TEXTS, SETTINGS, [False] * 4, strict=True), (TEXTS[0], SETTINGS[0], True)]
)
def test_the_python_lines_say_the_same_tokens_and_samples(model: str, text: str, settings: Settings, stream: bool) -> None:
    stored, tokens, expected = said(model, text, settings, stream)
    names: dict[str, object] = {}
    exec(compile(python_snippet(stored, model), "snippet", "exec"), names)
    assert names["take"].tokens == tokens
    assert np.array_equal(samples("speech.wav"), expected)
    assert read_stored(Path("speech.wav")) == stored


@pytest.mark.skipif(BASH is None, reason="no bash on this computer")
@pytest.mark.parametrize(("text", "settings"), zip(TEXTS, SETTINGS, strict=True))
def test_the_command_says_the_same_samples(model: str, text: str, settings: Settings) -> None:
    stored, _, expected = said(model, text, settings)
    module, name, *arguments = argv_of(shell_snippet(stored, model))
    assert (module, name) == ("-m", "pcg")
    assert arguments[-1] == stored.text
    assert main(arguments) == 0
    assert np.array_equal(samples("speech.wav"), expected)


def test_another_seed_is_another_take(model: str) -> None:
    stored, tokens, _ = said(model, TEXTS[0], SETTINGS[0])
    other = stored.with_(settings=stored.settings.with_(seed=12))
    names: dict[str, object] = {}
    exec(compile(python_snippet(other, model), "snippet", "exec"), names)
    assert names["take"].tokens != tokens


def test_a_recording_has_to_be_brought(model: str) -> None:
    stored, _, _ = said(model, TEXTS[0], SETTINGS[0])
    cloned = stored.with_(voice="a recording", reference="0" * 64)
    for snippet in (python_snippet(cloned), shell_snippet(cloned)):
        assert "# recording.wav stands for the recording" in snippet
    compile(python_snippet(cloned), "snippet", "exec")
