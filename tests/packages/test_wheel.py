"""The library as pip installs it, outside the checkout, with nothing beside it but what it asks for."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pcg.places import ASSETS, PROJECT

pytestmark = pytest.mark.slow
COMMAND = "import sys; from pcg.cli import main; sys.exit(main())"
Run = Callable[..., subprocess.CompletedProcess[str]]
HEAVY = ("gradio", "librosa", "umap", "faiss", "torch")
SPOKEN = """
import sys, time
begun = time.perf_counter()
import pcg
seconds = time.perf_counter() - begun
early = [name for name in {heavy} if name in sys.modules]
from pcg import Settings, Synthesizer, load_voice
late = [name for name in ("gradio", "librosa", "umap", "faiss") if name in sys.modules]
voice = load_voice()
take = Synthesizer(voice).take("Hello there.", Settings("pcg"), next(iter(voice.references)))
print(pcg.__file__, seconds < 2, early, late, len(take.audio) > 1000, sep="|")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the wheel in it."""
    built, folder = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", built, PROJECT], check=True, cwd=folder)
    (wheel,) = built.glob("pcg_lab-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder, wheel], check=True, cwd=folder)
    return folder


Brought = dict[tuple[str, frozenset[str]], Distribution]


def add_brought(asked: Iterable[str], extras: Iterable[str], brought: Brought) -> None:
    """Add what these lines of a package's metadata ask for on this computer, and what that asks for in turn, to `brought`."""
    for each in map(Requirement, asked):
        key = canonicalize_name(each.name), frozenset(each.extras)
        here = each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
        if here and key not in brought:
            brought[key] = distribution(each.name)
            add_brought(brought[key].requires or (), each.extras, brought)


@pytest.fixture(scope="module")
def declared(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages that the wheel declares, and those that they declare: a package that the library imports and
    nobody declares is not there."""
    folder, brought = tmp_path_factory.mktemp("declared"), {}
    (metadata,) = site.glob("pcg_lab-*.dist-info")
    add_brought(Distribution.at(metadata).requires, (), brought)
    for each in brought.values():
        for name in {file.parts[0] for file in each.files} - {"..", "__pycache__"}:
            if not (folder / name).exists():  # as where two packages share a namespace
                (folder / name).symlink_to(each.locate_file(name))
    return folder


@pytest.fixture
def run(site: Path, declared: Path) -> Run:
    """Python in an empty folder, which finds nothing but the library and what it declares."""
    place = site / "elsewhere"
    place.mkdir(exist_ok=True)
    own = {"PYTHONPATH": f"{site}{os.pathsep}{declared}", "XDG_CACHE_HOME": str(site / "caches"), "OMP_NUM_THREADS": "1"}

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        words = (sys.executable, "-S", *words)
        return subprocess.run(words, cwd=place, env={**os.environ, **own}, capture_output=True, text=True)

    return python


def test_the_wheel_holds_the_library_and_its_weights_and_nothing_else(site: Path) -> None:
    assert sorted(path.name for path in site.iterdir() if path.name[0] != "_") >= ["bin", "pcg"]
    assert not (site / "explorers").exists()
    for file in ("voice/target/model.safetensors", "recogniser/words.arpa.gz", "detectors/detectors.json"):
        assert (site / "pcg" / "assets" / file).read_bytes() == (ASSETS / file).read_bytes()
    code = {path.relative_to(PROJECT) for path in (PROJECT / "pcg").rglob("*.py")}
    assert {path for path in code if not (site / path).is_file()} == set()


def test_the_installed_library_is_light_to_import_and_speaks(site: Path, run: Run) -> None:
    assert "No module named 'gradio'" in run("-c", "import gradio").stderr, "what nobody declares is not there"
    done = run("-c", SPOKEN.format(heavy=HEAVY))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{site / 'pcg' / '__init__.py'}|True|[]|[]|True"


def test_the_readmes_lines_speak_stream_and_use_a_rule(site: Path, run: Run) -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    done = run("-c", f"{lines}print(len(take.audio), len(pieces), len(own.audio), sep='|')")
    assert done.returncode == 0, done.stderr
    samples, pieces, more_samples = map(int, done.stdout.splitlines()[-1].split("|"))
    assert (site / "elsewhere" / "speech.wav").stat().st_size > 2 * samples > 16_000
    assert pieces > 2
    assert more_samples > 8_000


def test_the_installed_command_speaks_into_a_file_and_keeps_its_caches_with_the_user(site: Path, run: Run) -> None:
    done = run("-c", COMMAND, "speak", "Hello, 3 boats!", "--out", "hello.wav")
    assert done.returncode == 0, done.stderr
    assert (site / "elsewhere" / "hello.wav").stat().st_size > 1000
    assert not (site / "cache").exists()
    assert "pcg = pcg.cli:main" in next(site.glob("pcg_lab-*.dist-info/entry_points.txt")).read_text(encoding="utf-8")
