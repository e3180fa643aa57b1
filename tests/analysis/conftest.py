"""A small voice that speaks."""

from pathlib import Path

import pytest

from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice


@pytest.fixture(scope="session")
def synthesizer(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"))
