"""Who generates the takes of the Compare panel in tests."""

from pathlib import Path

import pytest

from explorers.listen.turns import Speaker
from pcg.audio import write_wav
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Take
from pcg.text.prompt import Reference


@pytest.fixture
def speaker(synthesizer: Synthesizer, tmp_path: Path) -> Speaker:
    def keep(take: Take, reference: Reference | None, streamed: bool) -> Path:
        path = tmp_path / f"{len(list(tmp_path.glob('*.wav')))}.wav"
        write_wav(path, take.audio, take.sample_rate)
        return path

    return Speaker(synthesizer, keep)
