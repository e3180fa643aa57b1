from dataclasses import replace
from pathlib import Path

import pytest

from explorers.experiments.archive import Archive
from pcg.experiments.grids import ar, pcg, sd, ssd
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.experiments.quick import MARKUP, archive_of, keep


@pytest.fixture
def full(synthesizer: Synthesizer, tmp_path: Path) -> Archive:
    """An archive with some results."""
    keep(tmp_path / "full", [ar(), sd(), ssd(0.3), pcg(0.5), pcg(0.4), replace(pcg(0.3), name=MARKUP)])
    return archive_of(synthesizer, tmp_path / "full")


@pytest.fixture
def both(synthesizer: Synthesizer, tmp_path: Path) -> Archive:
    """An archive with shipped results of another voice, and no own ones yet."""
    keep(tmp_path / "committed", [ar(), sd()], voice="another voice")
    return archive_of(synthesizer, tmp_path / "own", tmp_path / "committed")
