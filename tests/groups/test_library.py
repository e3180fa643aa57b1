"""One voice's lists: built once, kept by content, the same for every thread, by every similarity; the theta of a mean size."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from pcg.groups.library import GroupLibrary, mel_features
from pcg.groups.neighbours import build_neighbours
from pcg.settings import SIMILARITIES


def library(voice, folder, **options) -> GroupLibrary:
    return GroupLibrary(voice.code_embedding, voice.codec, voice.usage > 0, 0.2, folder, **options)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_every_similarity_is_stored_and_read_back(voice, tmp_path, similarity):
    built = library(voice, tmp_path).groups(0.3, similarity)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    read = library(voice, tmp_path).groups(0.3, similarity)
    assert torch.equal(built.members, read.members)
    assert stamps
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps


def test_unused_codes_stand_alone_by_every_similarity(voice, tmp_path):
    kept = library(voice, tmp_path)
    unused = (voice.usage == 0).nonzero().flatten().tolist()
    assert unused
    for similarity in SIMILARITIES:
        groups = kept.groups(0.2, similarity)
        assert all(groups.count[t] == groups.size(int(groups.group_of_centre[t])) == 1 for t in unused)


def test_threads_share_one_search(voice, tmp_path, monkeypatch):
    searches = []

    def build(*arguments):
        searches.append(arguments)
        return build_neighbours(*arguments)

    monkeypatch.setattr("pcg.groups.library.build_neighbours", build)
    shared = library(voice, tmp_path)
    with ThreadPoolExecutor(4) as threads:
        lists = list(threads.map(lambda _: shared.neighbours(), range(8)))
    assert all(each is lists[0] for each in lists)
    assert len(searches) == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_shown_on_a_terminal_and_nowhere_else(voice, tmp_path, terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    library(voice, tmp_path, show_progress=True).neighbours()
    shown = capsys.readouterr().err
    assert "cosine: 100%" in shown if terminal else shown == ""


def test_codes_that_sound_alike_are_alike(voice):
    """The two codes whose decoded sounds differ least are nearer by `mel` than most pairs."""
    waves = torch.stack(
        [voice.codec.decode(torch.full((5,), code))[2 * voice.codec.hop : 3 * voice.codec.hop] for code in range(64)]
    )
    spectra = torch.fft.rfft(waves * torch.hann_window(waves.shape[1])).abs().log1p()
    gaps = torch.cdist(spectra, spectra) + 1e9 * torch.eye(64)
    i, j = divmod(int(gaps.argmin()), 64)
    unit = torch.nn.functional.normalize(mel_features(voice.codec), dim=1)
    cosine = unit @ unit.T
    assert float((cosine > cosine[i, j]).float().mean()) < 0.2


@pytest.mark.parametrize("theta", [0.3, 0.7, 1.0])
def test_a_mean_size_is_that_of_the_groups(theta):
    lists = build_neighbours(torch.randn(200, 5, generator=torch.Generator().manual_seed(0)), -0.2)
    assert lists.mean_size_at(theta) == pytest.approx(lists.groups_at(theta).statistics().mean_size)
