"""Other meanings of "similar", and the theta that makes them comparable."""

import pytest
import torch

from pcg.errors import InputError
from pcg.groups.library import mel_features
from pcg.groups.neighbours import build_neighbours
from pcg.synthesis.voice import load_voice


@pytest.fixture(scope="module")
def codec(tiny_voice_folder):
    return load_voice(str(tiny_voice_folder)).codec


def test_mel_features_are_of_each_code_alone_and_centred(codec):
    features = mel_features(codec)
    assert len(features) == codec.codebook_size
    assert features.isfinite().all()
    torch.testing.assert_close(features.mean(0), torch.zeros(features.shape[1]), rtol=0, atol=1e-4)
    assert torch.equal(features, mel_features(codec))


def test_codes_that_sound_alike_are_alike(codec):
    """The two codes whose decoded sounds differ least are nearer by `mel` than most pairs."""
    waves = torch.stack([codec.decode(torch.full((5,), code))[2 * codec.hop : 3 * codec.hop] for code in range(64)])
    spectra = torch.fft.rfft(waves * torch.hann_window(waves.shape[1])).abs().log1p()
    gaps = torch.cdist(spectra, spectra) + 1e9 * torch.eye(64)
    i, j = divmod(int(gaps.argmin()), 64)
    unit = torch.nn.functional.normalize(mel_features(codec), dim=1)
    cosine = unit @ unit.T
    assert float((cosine > cosine[i, j]).float().mean()) < 0.2


@pytest.mark.parametrize("wanted", [1.0, 2.0, 7.5, 30.0])
def test_theta_for_comes_as_close_as_any_theta(wanted):
    lists = build_neighbours(torch.randn(200, 5, generator=torch.Generator().manual_seed(0)), -0.2)
    theta = lists.theta_for(wanted)
    best = min(abs(lists.mean_size_at(float(s)) - wanted) for s in lists.similarity.double().unique())
    assert abs(lists.mean_size_at(theta) - wanted) <= best + 1e-9
    assert lists.groups_at(theta).statistics().mean_size == pytest.approx(lists.mean_size_at(theta))


@pytest.mark.parametrize("wanted", [0.5, 1e6, float("nan")])
def test_a_size_out_of_reach_is_refused(wanted):
    lists = build_neighbours(torch.randn(50, 5, generator=torch.Generator().manual_seed(0)), 0.5)
    with pytest.raises(InputError, match="mean_size"):
        lists.theta_for(wanted)
