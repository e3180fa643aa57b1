"""The target of the tiny voice."""

from pathlib import Path

import pytest

from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import Checkpoint, read_checkpoint
from pcg.synthesis.voice import load_voice


@pytest.fixture(scope="module")
def vocabulary(tiny_voice_folder: Path) -> Vocabulary:
    return load_voice(str(tiny_voice_folder)).vocabulary


@pytest.fixture(scope="module")
def target(tiny_voice_folder: Path, vocabulary: Vocabulary) -> Checkpoint:
    return read_checkpoint(tiny_voice_folder / "target", vocabulary)
