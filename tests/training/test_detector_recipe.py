"""The detectors' recipe on the tiny voice and a corpus of chirps, from nothing to a folder that is loaded."""

from pathlib import Path

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.files.checksums import LIST
from pcg.spoof.detector import RESOLUTIONS
from pcg.spoof.detectors import load_detectors
from pcg.spoof.segments import Segments
from pcg.synthesis.voice import load_voice
from pcg.training.data.corpus import write_shard
from pcg.training.detectors.recipe import DetectorRecipe, train_detectors_of
from pcg.training.detectors.stages import SpoofPlan

TEXTS = ("the quick brown fox jumps over a lazy dog", "is this one sentence", "hello over a lazy fox", "the dog jumps")
TINY = DetectorRecipe(
    shards=2, samples={"0.6": 24, "1": 24}, held_out_samples=24, plan=SpoofPlan(steps={r.name: 2 for r in RESOLUTIONS}, batch=8)
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work, rng = tmp_path_factory.mktemp("work"), np.random.default_rng(0)
    for split in ("train", "held_out_sentences"):
        spoken = [(text, 0.2 * rng.standard_normal(16_000 * 3).astype(np.float32)) for text in TEXTS * 3]
        write_shard(work / "corpus" / split / "rms" / "00000.npy", spoken)
    return work


@pytest.mark.slow
def test_from_a_corpus_to_detectors_that_load(tiny_voice_folder: Path, work: Path, tmp_path: Path) -> None:
    voice = load_voice(str(tiny_voice_folder))
    figures = train_detectors_of(voice, work, tmp_path, "cpu", 0, TINY)
    assert set(figures) == {"detectors", *(r.name for r in RESOLUTIONS)}
    listed = {line.split("  ")[1] for line in (tmp_path / LIST).read_text().splitlines()}
    assert {"MODEL_CARD.md", "figures.json", "held_out.safetensors", "m50/model.safetensors"} <= listed
    assert load_detectors(tmp_path).codes == voice.codec.codebook_size
    held_out = Segments.load(tmp_path / "held_out.safetensors")
    assert len(held_out.real) == 12
    assert all(0 <= int(u.max()) < voice.codec.codebook_size for u in held_out.synthetic)
    card = (tmp_path / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card
    assert f"| M50 | {figures['M50']['auc']:.3f} |" in card
    assert train_detectors_of(voice, work, tmp_path, "cpu", 0, TINY) == figures, "a second run finds all done"
    with pytest.raises(InputError, match="another recipe"):
        train_detectors_of(voice, work, tmp_path, "cpu", 1, TINY)
