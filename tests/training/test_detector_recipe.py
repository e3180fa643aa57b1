"""The detectors' recipe on the tiny voice and a corpus of chirps, from nothing to a folder that is loaded."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcg.errors import InputError
from pcg.files import LIST
from pcg.spoof import RESOLUTIONS, load_detectors
from pcg.synthesis.voice import load_voice
from pcg.training.detectors import DetectorRecipe, train_detectors_of
from pcg.training.shards import spoken_utterance, write_shard

TEXTS = ("the quick brown fox jumps over a lazy dog", "is this one sentence", "hello over a lazy fox", "the dog jumps")
TINY = DetectorRecipe(
    shards=2, samples={"0.6": 24, "1": 24}, held_out_samples=24, steps={r.name: 2 for r in RESOLUTIONS}, batch=8
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work, rng = tmp_path_factory.mktemp("work"), np.random.default_rng(0)
    for split in ("train", "held_out_sentences"):
        spoken = [spoken_utterance("rms", text, 0.2 * rng.standard_normal(16_000 * 3)) for text in TEXTS * 3]
        write_shard(work / "corpus" / split / "rms" / "00000.npy", spoken)
    return work


@pytest.mark.slow
def test_from_a_corpus_to_detectors_that_load(tiny_voice_folder: Path, work: Path, tmp_path: Path) -> None:
    voice = load_voice(str(tiny_voice_folder))
    figures = train_detectors_of(voice, work, tmp_path, "cpu", 0, TINY)
    assert set(figures) == {"detectors", *(r.name for r in RESOLUTIONS), "garbage"}
    listed = {line.split("  ")[1] for line in (tmp_path / LIST).read_text().splitlines()}
    assert {"MODEL_CARD.md", "figures.json", "m50/model.safetensors"} <= listed
    assert load_detectors(tmp_path).codes == voice.codec.codebook_size
    card = (tmp_path / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card
    assert f"| M50 | {figures['M50']['auc']:.3f} |" in card
    found = figures["garbage"]["swapped"]["M50"]
    assert f"| swapped | {found['spoof']:.3f}, AUC {found['auc']:.3f} |" in card
    assert "among the synthetic ones: random 10 %, uniform 5 %, shuffled 15 %, reversed 25 %, swapped 5 %." in card
    assert train_detectors_of(voice, work, tmp_path, "cpu", 0, TINY) == figures, "a second run finds all done"
    wider = replace(TINY.shape, width=256)
    for seed, recipe in ((1, TINY), (0, TINY.model_copy(update={"shape": wider}))):
        with pytest.raises(InputError, match="another recipe"):
            train_detectors_of(voice, work, tmp_path, "cpu", seed, recipe)
