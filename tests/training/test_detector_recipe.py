"""The detectors' recipe on the tiny voice and a corpus of chirps, from nothing to a folder that is loaded."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from pcg.cli import main
from pcg.errors import InputError
from pcg.files import LIST
from pcg.spoof.detectors import RESOLUTIONS, DetectorConfig, load_detectors
from pcg.synthesis.voice import load_voice
from pcg.training.corpus import write_shard
from pcg.training.detectors import DetectorRecipe, identity, train_detectors_of

TEXTS = ("the quick brown fox jumps over a lazy dog", "is this one sentence", "hello over a lazy fox", "the dog jumps")
TINY = DetectorRecipe(
    shards=2, samples={"0.6": 24, "1": 24}, held_out_samples=24, steps={r.name: 2 for r in RESOLUTIONS}, batch=8
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
    for seed, recipe in ((1, TINY), (0, TINY.model_copy(update={"size": "paper"}))):
        with pytest.raises(InputError, match="another recipe"):
            train_detectors_of(voice, work, tmp_path, "cpu", seed, recipe)


def test_the_command_hands_the_size_on(
    tiny_voice_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[DetectorRecipe] = []
    monkeypatch.setattr("pcg.training.detectors.train_detectors_of", lambda *given: asked.append(given[-1]))
    command = ["train", "detectors", "--target", str(tiny_voice_folder), "--out", str(tmp_path)]
    for given in ([], ["--size", "paper"]):
        assert main([*command, *given]) in (0, None)
    small, paper = asked
    assert small == DetectorRecipe()
    assert paper.config(64, 48) == DetectorConfig(64, width=256, heads=8, layers=4, feed_forward=1024, code_width=48)
    assert (paper.lr, paper.weight_decay, paper.mix.synthetic) == (1e-4, 1e-4, 3)
    assert (small.config(64, 48).width, small.mix.synthetic) == (128, 1)
    assert paper.samples == small.samples
    assert main([*command, "--size", "huge"]) == 2
    assert "size is 'huge', but must be 'small' or 'paper'" in capsys.readouterr().err


def test_voices_of_one_name_are_told_apart_by_what_speaks(tiny_voice_folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(tiny_voice_folder, tmp_path / tiny_voice_folder.name))
    before = identity(load_voice(str(tiny_voice_folder)))
    shutil.rmtree(copied / "draft")
    assert identity(load_voice(str(copied), draft="none")) == before, "a draft changes nothing of what is said"
    for part in ("target", "codec"):
        weights = copied / part / "model.safetensors"
        tensors = load_file(weights)
        save_file({name: tensor * 1.5 for name, tensor in tensors.items()}, weights, {"format": "pt"})
        after = identity(load_voice(str(copied), draft="none"))
        assert [key for key in after if after[key] != before[key]] == [part]
        before = after
