"""A recogniser with random weights: it spells nonsense, but everything works as in the shipped one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pcg.recognition.conformer import ConformerCTC, EncoderConfig
from pcg.recognition.embedded import EmbeddedRecogniser, load_recogniser, save_recogniser
from pcg.recognition.subwords import Subwords
from pcg.training.recogniser import ReaderShape, new_reader

SENTENCES = (
    "the quick brown fox jumps over a lazy dog",
    "don't the boats move slowly along the river",
    "a warm bright morning sun",
)


@pytest.fixture(scope="session")
def recogniser_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = EncoderConfig(layers=2, width=16, heads=2, feed_forward=32, kernel=7)
    encoder, subwords = ConformerCTC(config), Subwords.learn(SENTENCES, 48)
    reader = new_reader(ReaderShape(48, layers=2, width=32, heads=2, feed_forward=48), config, subwords, seed=0)
    with torch.no_grad():
        # Far from the tiny initial weights, so that layers, frames and positions matter.
        for weight in reader["lm"].parameters():
            weight.mul_(8.0 if weight.ndim == 2 else 1.0)
        encoder.head.weight.mul_(8.0)
        encoder.head.bias.zero_()
    folder = tmp_path_factory.mktemp("recogniser")
    save_recogniser(folder, "tiny", encoder, reader["projector"], reader["lm"], subwords, torch.float32)
    return folder


@pytest.fixture(scope="session")
def recogniser(recogniser_folder: Path) -> EmbeddedRecogniser:
    return load_recogniser(recogniser_folder)


@pytest.fixture(scope="session")
def babble() -> Callable[[int, int], list[Tensor]]:
    """`babble(count, seed)`: utterances of 0.4 to 1.2 seconds, chirps whose pitch and loudness move."""

    def make(count: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        utterances = []
        for _ in range(count):
            seconds, low, bend = torch.rand(3, generator=generator).tolist()
            time = torch.arange(int((0.4 + 0.8 * seconds) * 16_000)) / 16_000
            tone = torch.sin(2 * torch.pi * (200 + 1500 * low) * time * (1 + bend * time))
            noise = torch.randn(len(time), generator=generator)
            utterances.append(0.2 * tone * (1.2 + torch.sin(25 * time)) + 0.02 * noise)
        return utterances

    return make
