"""A recipe of one's own: what a YAML file changes, and what it is refused for."""

import re
from pathlib import Path

import pytest

from pcg.cli import main
from pcg.codec.embedded import CodecConfig
from pcg.errors import InputError
from pcg.experiments.grids import read_grid
from pcg.places import PROJECT
from pcg.training.corpus import Speaker
from pcg.training.models import Shape
from pcg.training.voice import VoiceRecipe

OWN = """
speakers: {anna: {teacher: hibari, shift: 1.1, hours: 12}}
codec: {frames_per_token: 4, levels: [8, 8, 8]}
target: {layers: 16, width: 384, heads: 6}
target_steps: 400
temperature: 0.6
target_decay_share: 0.8
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text)
    return path


def test_only_what_is_named_differs_from_the_embedded_voice(tmp_path: Path) -> None:
    assert VoiceRecipe.read(written(tmp_path, "{}")) == VoiceRecipe()
    assert VoiceRecipe.read(written(tmp_path, "target: {width: 384}")).target == Shape(24, 384, 4, 768)
    assert VoiceRecipe.read(written(tmp_path, OWN)) == VoiceRecipe(
        speakers={"anna": Speaker("hibari", 1.1, 12.0)},
        codec=CodecConfig(frames_per_token=4, levels=(8, 8, 8)),
        target=Shape(layers=16, width=384, heads=6),
        target_steps=400,
        temperature=0.6,
        target_decay_share=0.8,
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[]", "recipe"),
        ("target: {wide: 3}", "key of the target"),
        ("target: {width: 100, heads: 3}", "width"),
        ("codec: {levels: [64, 64, 64]}", "levels"),
        ("codec: {sample_rate: 24000}", "sample_rate"),
        ("temperature: 9", "temperature"),
        ("speakers: {}", "speakers"),
        ("speakers: {anna: {teacher: flite}}", "teacher"),
        ("speakers: {", "recipe"),
    ],
)
def test_a_wrong_choice_is_named(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(InputError) as refused:
        VoiceRecipe.read(written(tmp_path, text))
    assert refused.value.field == field


def test_the_command_line_refuses_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--work", str(tmp_path), "--recipe", str(written(tmp_path, OWN))]
    for stage, field in (("publish", "out"), ("detectors", "key of the recipe")):
        assert main(["train", stage, *own]) == 2
        said = capsys.readouterr().err
        assert field in said
        assert said.count("\n") == 1


def test_the_recipes_and_grids_of_the_documents_can_be_read(tmp_path: Path) -> None:
    documents = [path.read_text(encoding="utf-8") for path in (PROJECT / "docs").glob("*.md")]
    recipes = [block for text in documents for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    grids = list((PROJECT / "docs").glob("*.yaml"))
    for recipe in recipes:
        VoiceRecipe.read(written(tmp_path, recipe))
    for grid in grids:
        assert read_grid(grid).conditions
    assert len(recipes) >= 2
    assert grids
