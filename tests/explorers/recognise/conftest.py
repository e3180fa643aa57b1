"""Sounds to recognise."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from torch import Tensor


@pytest.fixture
def sound(babble: Callable[[int, int], list[Tensor]]) -> np.ndarray:
    return babble(1, 3)[0].numpy()


@pytest.fixture
def recordings(babble: Callable[[int, int], list[Tensor]], tmp_path: Path) -> list[Path]:
    """Ten files in `tmp_path`."""
    for i, utterance in enumerate(babble(10, 5)):
        soundfile.write(tmp_path / f"utt-{i}.wav", utterance.numpy(), 16_000)
    return sorted(tmp_path.glob("*.wav"))
