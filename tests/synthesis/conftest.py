"""The target of the tiny voice."""

import pytest

from pcg.models.weights import Checkpoint, Vocabulary, read_checkpoint
from pcg.synthesis.voice import Voice


@pytest.fixture(scope="module")
def vocabulary(voice: Voice) -> Vocabulary:
    return voice.vocabulary


@pytest.fixture(scope="module")
def target(voice: Voice, vocabulary: Vocabulary) -> Checkpoint:
    return read_checkpoint(voice.folder / "target", vocabulary)
