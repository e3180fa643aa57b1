"""A voice whose own draft is a feature draft, beside another that is chosen by its name."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pcg.errors import InputError
from pcg.models.feature_draft import FeatureDraft, FeatureShape, config_of
from pcg.models.weights import Checkpoint, Vocabulary
from pcg.saved_take import Origin, Stored, shell_snippet
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import choose_draft, load_voice
from pcg.synthesis.whatif import what_if
from pcg.text.prompt import Reference

WORDS = "hello, is this one sentence?"


@pytest.fixture(scope="module")
def featured(
    tiny_voice_folder: Path, target: Checkpoint, vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tiny voice with a feature draft as its own."""
    folder = tmp_path_factory.mktemp("featured")
    shutil.copytree(tiny_voice_folder, folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "draft")
    write_feature_draft(folder / "draft", target, vocabulary)
    return folder


def write_feature_draft(folder: Path, target: Checkpoint, vocabulary: Vocabulary) -> None:
    shape = FeatureShape.of(target, (1, 3), rank=8)
    generator = torch.Generator().manual_seed(0)
    tensors = {n: 0.3 * torch.randn(size, generator=generator) for n, size in shape.tensors(vocabulary.size).items()}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_of(shape)))
    save_file(tensors, folder / "model.safetensors")


def test_the_draft_of_a_voice_is_its_own_or_that_of_a_folder(
    featured: Path, target: Checkpoint, vocabulary: Vocabulary
) -> None:
    own = choose_draft("auto", target, vocabulary, featured / "draft")
    assert (own.kind, own.notice) == ("trained", "")
    assert isinstance(own.model, FeatureDraft)
    for missing in ("subset", "../draft"):
        with pytest.raises(InputError, match="auto, none"):
            choose_draft(missing, target, vocabulary, featured / "draft")
    elsewhere = choose_draft(str(featured / "draft"), target, vocabulary, None)
    assert elsewhere.kind.startswith("folder:")
    assert isinstance(elsewhere.model, FeatureDraft)


@pytest.mark.slow
def test_every_method_speaks_with_a_feature_draft(featured: Path, tmp_path: Path) -> None:
    synthesizer = Synthesizer(load_voice(str(featured)), tmp_path)
    subset = Synthesizer(load_voice(str(featured), draft="layers:0,1"), tmp_path)
    for method in METHODS:
        settings = Settings(method, theta=0.3, seed=1)
        take = synthesizer.take(WORDS, settings, "one")
        assert take.tokens
        assert (subset.take(WORDS, settings, "one").tokens == take.tokens) == (method == "ar")
    stored = Stored(text=WORDS, voice="one", settings=Settings(), origin=Origin.of(subset.voice))
    assert stored.origin.draft == "layers:0,1"
    assert Stored.from_json(stored.to_json()) == stored
    assert "--draft layers:0,1 " in shell_snippet(stored, "here")
    rows = what_if(synthesizer, synthesizer.take(WORDS, Settings("sd", seed=1), "one"))
    assert 0 <= dict(rows["lookahead"])[3].acceptance_rate <= 1


def test_a_feature_draft_speaks_along_a_cloned_voice(featured: Path, tmp_path: Path) -> None:
    """It reads the target's states of the reference, too: a reference of other codes gives other drafts. PCG with groups of
    one token says what SD says."""
    synthesizer = Synthesizer(load_voice(str(featured)), tmp_path)
    drafted = []
    for shift in (0, 5):
        speaker = Reference("hello", (torch.arange(40) + shift) % 64)
        sd, alone = (synthesizer.take(WORDS, Settings(m, theta=1.0, seed=1), "mine", speaker) for m in ("sd", "pcg"))
        assert sd.tokens == alone.tokens
        drafted.append([round_.drafted for round_ in sd.rounds])
    assert drafted[0] != drafted[1]


def test_a_feature_draft_of_another_target_is_one_sentence(
    tiny_voice_folder: Path, target: Checkpoint, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    write_feature_draft(tmp_path / "draft", target.subset((0, 1, 2, 2)), vocabulary)
    with pytest.raises(InputError, match="draft is 'made for a target with num_target_layers 4'"):
        choose_draft(str(tmp_path / "draft"), target, vocabulary, None)
