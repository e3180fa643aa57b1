"""Speech codes and a sound for every codec's tests."""

import pytest
import torch


@pytest.fixture(scope="module")
def codes():
    return torch.randint(65_536, (400,), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def wave(babble):
    return torch.cat(babble(3, seed=2))
