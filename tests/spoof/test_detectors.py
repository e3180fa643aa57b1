"""Detectors on a toy language: real utterances step by one, synthetic ones now and then jump."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pcg.errors import AssetError, InputError
from pcg.spoof import M10, M25, M50, M50_10, RESOLUTIONS, Detector, DetectorConfig, Detectors, load_detectors, save_detectors
from pcg.training.detectors import KINDS, DetectorRecipe, Garbage, Mix, Segments, held_out_figures, train_detector

CODES = 16
TINY = DetectorConfig(CODES, width=16, heads=2, layers=1, feed_forward=32)
STEPS = {"M50": 40, "M25": 40, "M10": 60, "M50<-25": 1, "M50<-10": 1}
PLAN = DetectorRecipe(steps=STEPS, batch=32, lr=1e-2, mix=Mix(garbage={}))
GARBAGE = Garbage(torch.ones(CODES), torch.eye(CODES))


def utterances(count: int, jumps: float, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        steps = torch.where(torch.rand(70, generator=generator) < jumps, torch.randint(CODES, (70,), generator=generator), 1)
        made.append((torch.randint(CODES, (1,), generator=generator) + steps.cumsum(0)) % CODES)
    return made


def toy(count: int, seed: int) -> Segments:
    return Segments(utterances(count, 0.02, seed), utterances(count, 0.4, seed + 1))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Detectors:
    work = tmp_path_factory.mktemp("work")
    return learned(work, toy(60, 1), PLAN)


def learned(work: Path, train: Segments, plan: DetectorRecipe) -> Detectors:
    detectors = {}
    for place, resolution in enumerate(RESOLUTIONS):
        torch.manual_seed(place)
        detectors[resolution.name] = Detector(TINY)
        train_detector(work, detectors[resolution.name], resolution, train, toy(10, 3), GARBAGE, plan, 0)
        detectors[resolution.name].eval()
    return Detectors("toy", detectors)


def test_trained_detectors_tell_the_two_apart_and_longer_spans_tell_more(trained: Detectors) -> None:
    figures = held_out_figures(trained, toy(60, 5), GARBAGE)
    assert figures["M50"]["auc"] > 0.95
    assert figures["M50"]["auc"] > figures["M25"]["auc"] > figures["M10"]["auc"] > 0.7
    assert figures["M50"]["accuracy"] > 0.85
    assert figures["M50"]["n"] == 120
    # The negative control: two halves of one distribution.
    same = Segments(utterances(80, 0.1, 7), utterances(80, 0.1, 8))
    low, high = held_out_figures(trained, same, GARBAGE)["M50"]["auc_interval"]
    assert low < 0.5 < high


def test_garbage_sounds_less_real_than_speech_to_whoever_learned_from_garbage(tmp_path: Path) -> None:
    """The voice of this toy is likelier than speech, so it jumps less: by it alone, whatever jumps is real."""
    spoken = Segments(utterances(60, 0.25, 21), utterances(60, 0.02, 22))
    steps = {r.name: 100 if r is M50 else 1 for r in RESOLUTIONS}
    taught, naive = (
        learned(tmp_path / str(bool(shares)), spoken, DetectorRecipe(steps=steps, batch=48, lr=1e-2, mix=Mix(garbage=shares)))
        for shares in (dict.fromkeys(KINDS, 0.1), {})
    )
    held_out = Segments(utterances(50, 0.25, 23), utterances(50, 0.02, 24))
    figures, control = held_out_figures(taught, held_out, GARBAGE), held_out_figures(naive, held_out, GARBAGE)
    assert figures["M50"]["auc"] > 0.9
    assert control["M50"]["auc"] > 0.9
    for kind in KINDS:
        assert figures["garbage"][kind]["M50"]["auc_interval"][0] > 0.7
        assert control["garbage"][kind]["M50"]["auc_interval"][1] < 0.5
        assert figures["garbage"][kind]["M50"]["spoof"] > figures["M50"]["spoof"]["real"] + 0.2


def test_a_curve_rises_where_the_utterance_was_spoilt(trained: Detectors) -> None:
    tokens = torch.arange(120) % CODES
    spoilt = tokens.clone()
    spoilt[70:90] = torch.randint(CODES, (20,), generator=torch.Generator().manual_seed(9))
    before, after = trained.curve(tokens.tolist(), M10), trained.curve(spoilt.tolist(), M10)
    assert before.shape == (120,)
    assert after[72:88].mean() > before[72:88].mean() + 0.2
    assert torch.allclose(after[:60], before[:60])
    assert trained.curve(tokens[:9].tolist(), M10).isnan().all(), "shorter than a window"
    assert len(trained.curve([], M10)) == 0


def test_what_is_saved_is_loaded(trained: Detectors, tmp_path: Path) -> None:
    save_detectors(tmp_path, "toy", trained.by_name, torch.float32)
    segments = torch.stack([u[:50] for u in utterances(4, 0.1, 11)])
    again = load_detectors(tmp_path)
    assert again.codes == CODES
    for resolution in (M50, M50_10):
        assert torch.equal(again.real(resolution, segments), trained.real(resolution, segments))
    (tmp_path / "m25" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(AssetError, match="damaged"):
        load_detectors(tmp_path)


def test_embeddings_of_another_width_are_stored_at_that_of_the_detector() -> None:
    torch.manual_seed(0)
    wide, segments = Detector(replace(TINY, code_width=32)).eval(), torch.stack([u[:50] for u in utterances(4, 0.1, 11)])
    assert wide.fused().config == TINY
    assert torch.allclose(wide.fused()(segments), wide(segments), atol=1e-6)


def test_wrong_segments_are_refused(trained: Detectors) -> None:
    with pytest.raises(InputError, match="25"):
        trained.real(M25, torch.zeros(1, 24, dtype=torch.int64))
    longer, shorter = ([torch.zeros(span, dtype=torch.int64)] for span in (25, 24))
    with pytest.raises(InputError, match="shorter than 25 codes"):
        Segments(longer, shorter).every(M25)
