"""Whatever comes in: handled, or refused in one sentence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from pcg.asr.embedded import Recogniser
from pcg.asr.self_speculative import CUT_SECONDS, PRESETS, cut, listen, listen_to_file
from pcg.errors import InputError

Babble = Callable[[int, int], list[Tensor]]
RATE = 16_000
FAST = PRESETS["fast"]


def tone(seconds: float, rate: int) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


@pytest.mark.parametrize("samples", [np.float32([0.1, np.inf]), np.zeros((2, 100), np.float32), np.zeros(100, np.int16)])
def test_what_is_no_audio_is_refused_in_one_sentence(recogniser: Recogniser, samples: np.ndarray) -> None:
    with pytest.raises(InputError) as caught:
        listen(recogniser, samples, RATE, FAST)
    assert "\n" not in str(caught.value)


FAINT = np.random.default_rng(0).normal(0, 0.0005, 3 * RATE).astype(np.float32)
"""The noise of a microphone."""


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.zeros(3 * RATE, np.float32), tone(0.05, RATE), FAINT])
def test_nothing_audible_is_an_empty_text(recogniser: Recogniser, samples: np.ndarray) -> None:
    found = listen(recogniser, samples, RATE, FAST)
    assert (found.text, found.parts) == ("", ())


def test_long_speech_is_cut_in_its_pauses() -> None:
    rng, pieces = np.random.default_rng(0), []
    for seconds in rng.uniform(2.0, 4.0, 12):
        pieces += [0.1 * rng.standard_normal(int(seconds * RATE)), np.zeros(int(0.4 * RATE))]
    speech = np.concatenate(pieces).astype(np.float32)
    parts = cut(speech, RATE)
    assert all(p.stop - p.start <= CUT_SECONDS[1] * RATE for p in parts)
    assert [p.stop for p in parts[:-1]] == [p.start for p in parts[1:]]
    assert parts[0].start == 0
    assert 0.3 * RATE < len(speech) - parts[-1].stop < 0.4 * RATE  # the last pause is no speech
    assert all(not speech[p.stop - 160 : p.stop + 160].any() for p in parts[:-1])
    noise = 0.1 * rng.standard_normal(14 * RATE).astype(np.float32)
    noise[9 * RATE : 9 * RATE + RATE // 12] = 0  # shorter than what is looked at, far from where the search begins
    assert cut(noise, RATE)[0].stop == pytest.approx(9.05 * RATE, abs=0.1 * RATE)


def test_minutes_are_transcribed_in_parts(recogniser: Recogniser, tmp_path: Path, babble: Babble) -> None:
    minutes = torch.cat([*babble(40, 2)]).repeat(6).numpy()[: 120 * 8000]
    path = tmp_path / "long.flac"
    soundfile.write(path, np.stack([minutes] * 2, 1), 8000)
    found = listen_to_file(recogniser, path, FAST)
    assert len(found.parts) >= 120 / CUT_SECONDS[1] - 1
    assert found.starts == tuple(sorted(found.starts))
    assert found.text == " ".join(t.text for t in found.parts if t.text)


@pytest.mark.parametrize("name", ["notes.wav", "missing.wav"])
def test_files_that_are_no_audio_are_refused(recogniser: Recogniser, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.wav").write_text("no sound")
    with pytest.raises(InputError, match="audio file"):
        listen_to_file(recogniser, tmp_path / name, FAST)
