"""The library as pip installs it, outside the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pcg.places import ASSETS, PROJECT

pytestmark = pytest.mark.slow
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


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in an empty folder, which finds the library in `site` alone."""
    place = site / "elsewhere"
    place.mkdir(exist_ok=True)
    own = {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(site / "caches"), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *words], cwd=place, env={**os.environ, **own}, capture_output=True, text=True)


def test_the_wheel_holds_the_library_and_its_weights_and_nothing_else(site: Path) -> None:
    assert sorted(path.name for path in site.iterdir() if path.name[0] != "_") >= ["bin", "pcg"]
    assert not (site / "tests").exists()
    assert not (site / "explorers").exists()
    for file in ("voice/target/model.safetensors", "recogniser/words.arpa.gz", "detectors/detectors.json"):
        assert (site / "pcg" / "assets" / file).read_bytes() == (ASSETS / file).read_bytes()
    code = {path.relative_to(PROJECT) for path in (PROJECT / "pcg").rglob("*.py")}
    assert {path for path in code if not (site / path).is_file()} == set()


def test_the_installed_library_is_light_to_import_and_speaks(site: Path) -> None:
    done = run(site, "-c", SPOKEN.format(heavy=HEAVY))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{site / 'pcg' / '__init__.py'}|True|[]|[]|True"


def test_the_installed_command_speaks_into_a_file_and_keeps_its_caches_with_the_user(site: Path) -> None:
    script = "import sys; from pcg.cli import main; sys.exit(main())"
    done = run(site, "-c", script, "speak", "Hello there.", "--out", "hello.wav")
    assert done.returncode == 0, done.stderr
    assert (site / "elsewhere" / "hello.wav").stat().st_size > 1000
    assert not (site / "cache").exists()
    assert "pcg = pcg.cli:main" in next(site.glob("pcg_lab-*.dist-info/entry_points.txt")).read_text(encoding="utf-8")
