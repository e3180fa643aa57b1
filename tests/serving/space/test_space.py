"""What would be uploaded as a Space: whole, with a front matter that fits, and able to start."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from gradio_client import Client
from huggingface_hub import SpaceCard, SpaceHardware
from packaging.specifiers import SpecifierSet

from pcg.errors import InputError
from pcg.files import check_checksums
from pcg.models.hub import NAMES
from pcg.places import PROJECT
from pcg.serving.staging import CPU_WHEELS, main, read_requirements, stage_space
from pcg.settings import METHODS
from tests.explorers.requests.conftest import PATIENCE_SECONDS, started


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stage_space(PROJECT, tmp_path_factory.mktemp("space"))


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """A repository with all that staging asks for, and next to nothing in it."""
    root = tmp_path / "repository"
    for name in ("pcg", "explorers", "docs", "assets/results"):
        (root / name).mkdir(parents=True)
    for name in ("pyproject.toml", "requirements.txt", "requirements-nodeps.txt", "requirements-mcp.txt", "README.md"):
        (root / name).write_text((PROJECT / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("app.py", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "NOTICE"):
        (root / name).write_text("", encoding="utf-8")
    return root


def test_it_holds_what_serves_and_nothing_else(space: Path) -> None:
    files = {path.relative_to(space).as_posix() for path in space.rglob("*") if path.is_file()}
    assert {"app.py", "README.md", "requirements.txt", "NOTICE", "assets/voice/voice.json", "assets/example/pcg.wav"} <= files
    assert {name.split("/")[0] for name in files} == {
        "app.py", "pcg", "explorers", "assets", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
        "requirements.txt", "pyproject.toml", "LICENSE", "NOTICE",
    }  # fmt: skip
    assert "assets/results/units.parquet" in files
    reached = re.findall(r'PROJECT / "([\w.]+)"', "".join(p.read_text(encoding="utf-8") for p in space.rglob("*.py")))
    assert {name for name in reached if name not in ("cache", "runs")} <= {name.split("/")[0] for name in files}
    assert "assets/results/results.json" in files
    assert "assets/results/report.html" not in files
    assert not [name for name in files if name.endswith(".pyc")]
    for folder in (space / "assets").iterdir():
        check_checksums(folder)


def test_staging_again_replaces_its_own_and_nothing_else(little: Path, tmp_path: Path) -> None:
    out = stage_space(little, tmp_path / "out")
    (out / ".git").mkdir()
    (out / "stray.txt").write_text("old")
    stage_space(little, out)
    assert not (out / "stray.txt").exists()
    assert (out / ".git").is_dir()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("the only copy")
    for place in (mine, mine / "thesis.txt"):
        with pytest.raises(InputError, match="one that `make space` wrote"):
            stage_space(little, place)
    assert (mine / "thesis.txt").read_text() == "the only copy"


def test_the_front_matter_fits_the_files_beside_it() -> None:
    card = SpaceCard.load(PROJECT / "README.md", ignore_metadata_errors=False).data
    pins = {each.name: str(each.specifier) for each in read_requirements(PROJECT / "requirements.txt")}
    allowed = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert pins["gradio"] == f"=={card.sdk_version}"
    assert card.python_version in SpecifierSet(allowed)
    assert (PROJECT / card.app_file).is_file()


def test_a_space_of_llasa_names_its_weights_and_asks_for_a_gpu(little: Path, tmp_path: Path) -> None:
    plain, large = stage_space(little, tmp_path / "plain"), stage_space(little, tmp_path / "large", "llasa-1b")
    usual, card = SpaceCard.load(plain / "README.md"), SpaceCard.load(large / "README.md")
    assert card.data.models == card.data.preload_from_hub == [NAMES["llasa-1b"].repository, "HKUSTAudio/xcodec2-hf"]
    assert SpaceHardware(card.data.suggested_hardware) is SpaceHardware.ZERO_A10G
    assert card.data.python_version == "3.12"
    assert "torch" not in {each.name for each in read_requirements(large / "requirements.txt")}
    assert SpaceHardware(usual.data.suggested_hardware) is SpaceHardware.CPU_BASIC
    assert "torch" in {each.name for each in read_requirements(plain / "requirements.txt")}
    assert usual.data.get("models") is None
    assert card.text == usual.text
    assert CPU_WHEELS in (plain / "requirements.txt").read_text()
    assert CPU_WHEELS not in (large / "requirements.txt").read_text()


def test_a_space_installs_what_make_app_installs(space: Path) -> None:
    staged = {each.name: each for each in read_requirements(space / "requirements.txt")}
    usual = [*read_requirements(PROJECT / "requirements.txt"), *read_requirements(PROJECT / "requirements-nodeps.txt")]
    assert {each.name for each in usual} - staged.keys() == {"webrtcvad-wheels"}
    assert all(staged[each.name] == each for each in usual if each.name in staged)


def test_an_unknown_model_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", str(tmp_path), "--model", "gpt"]) == 2
    assert capsys.readouterr().err.startswith("staging: model is 'gpt', but must be one of embedded, llasa-1b")


@pytest.fixture
def served(space: Path, tmp_path: Path) -> Iterator[str]:
    """`python app.py` as a Space starts it: no options, its own folder, a Space's variables and no one else's packages."""
    folder, temporary = Path(os.environ.get("SPACE", space)).resolve(), tmp_path / "temporary"
    temporary.mkdir()
    variables = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "OMP_NUM_THREADS")} | {"SYSTEM": "spaces"}
    python = os.environ.get("SPACE_PYTHON", sys.executable)
    server = started(temporary, python=python, folder=folder, variables=variables)
    yield server.address
    server.process.terminate()
    server.process.wait(30)
    assert "Traceback" not in temporary.with_suffix(".log").read_text()


@pytest.mark.slow
def test_it_starts_and_speaks_as_a_space_would(served: str) -> None:
    page = Client(served, verbose=False, httpx_kwargs={"timeout": PATIENCE_SECONDS})
    text = "The boats are in."
    answer = page.predict(text=text, recording=None, api_name="/generate")
    state = json.loads((answer.get("value") or answer)["state"])
    assert [lane["key"] for lane in state["lanes"]] == list(METHODS)
    assert all(lane["text"] == text and lane["seconds"] > 0.3 for lane in state["lanes"])
    with urlopen(served, timeout=PATIENCE_SECONDS) as answer:
        assert "Voice: embedded (Apache-2.0)" in answer.read().decode()


def test_a_space_with_an_address_has_a_thumbnail(little: Path, tmp_path: Path) -> None:
    card = SpaceCard.load(stage_space(little, tmp_path / "out", repo="me/pcg") / "README.md")
    assert card.data.thumbnail == "https://huggingface.co/spaces/me/pcg/resolve/main/assets/page.png"
    assert SpaceCard.load(stage_space(little, tmp_path / "plain") / "README.md").data.get("thumbnail") is None
