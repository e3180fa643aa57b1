"""What would be uploaded as a Space, and what a container would be built from: whole, accepted, and able to start."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import soundfile
import yaml
from gradio_client import Client

from pcg.errors import InputError
from pcg.files import LIST, check_checksums
from pcg.models.hub import NAMES
from pcg.places import PROJECT
from pcg.saved_take import Stored
from pcg.serving.space import (
    ATTRIBUTES,
    CPU_WHEELS,
    LARGEST_PLAIN,
    LFS,
    FrontMatter,
    check,
    front_of,
    main,
    read_front_matter,
    read_requirements,
    split,
    stage,
    third_party,
    uncovered,
    with_changes,
)

ROOT = PROJECT
PATIENCE_SECONDS = 420


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stage(ROOT, tmp_path_factory.mktemp("space")).folder


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """A repository with all that staging asks for, and next to nothing in it."""
    root = tmp_path / "repository"
    for name in ("pcg", "explorers", "docs", "assets/results"):
        (root / name).mkdir(parents=True)
    for name in (
        "pyproject.toml",
        "requirements.txt",
        "requirements-nodeps.txt",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ):
        (root / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("app.py", "LICENSE", "NOTICE"):
        (root / name).write_text("", encoding="utf-8")
    return root


def edited(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def test_it_holds_what_serves_and_nothing_else(space: Path) -> None:
    files = {path.relative_to(space).as_posix() for path in space.rglob("*") if path.is_file()}
    assert {"app.py", "README.md", "requirements.txt", "NOTICE", "assets/voice/voice.json", "assets/example/pcg.wav"} <= files
    assert {name.split("/")[0] for name in files} == {
        "app.py", "pcg", "explorers", "assets", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
        "requirements.txt", "pyproject.toml", "LICENSE", "NOTICE",
        ATTRIBUTES,
    }  # fmt: skip
    assert "assets/results/results.jsonl.xz" in files
    reached = re.findall(r'PROJECT / "([\w.]+)"', "".join(p.read_text(encoding="utf-8") for p in space.rglob("*.py")))
    assert {name for name in reached if name not in ("cache", "runs")} <= {name.split("/")[0] for name in files}
    assert not {"assets/results/report.html", "assets/results/results.json"} & files
    assert not [name for name in files if name.endswith(".pyc")]


def test_what_is_left_out_is_not_missed(space: Path) -> None:
    assert "results.json" not in (space / "assets/results" / LIST).read_text().split()
    for folder in (space / "assets").iterdir():
        check_checksums(folder)


def test_every_file_that_the_hub_refuses_otherwise_goes_through_lfs(space: Path) -> None:
    staged = check(ROOT, space)
    big = {path.relative_to(space).as_posix() for path in space.rglob("*") if path.stat().st_size > LARGEST_PLAIN}
    assert "assets/voice/codec/model.safetensors" in big
    assert big <= set(staged.large)
    for name in set(staged.files) - set(staged.large):
        (space / name).read_text(encoding="utf-8")
    asked = subprocess.run(
        ["git", "check-attr", "filter", *staged.large], cwd=_as_repository(space), capture_output=True, text=True, check=True
    )
    assert asked.stdout.count("filter: lfs") == len(staged.large)


def _as_repository(space: Path) -> Path:
    subprocess.run(["git", "init", "--quiet"], cwd=space, check=True)
    return space


def test_staging_again_replaces_its_own_and_keeps_a_clone(little: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stage(little, out)
    (out / ".git").mkdir()
    (out / "stray.txt").write_text("old")
    assert set(stage(little, out).files) == {
        "app.py", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "requirements.txt", "pyproject.toml", "LICENSE", "NOTICE",
        ATTRIBUTES,
    }  # fmt: skip
    assert (out / ".git").is_dir()


def test_it_never_writes_over_what_it_did_not_write(little: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("the only copy")
    with pytest.raises(InputError, match="one that `make space` wrote"):
        stage(little, out)
    with pytest.raises(InputError, match="out is"):
        stage(little, out / "thesis.txt")
    assert (out / "thesis.txt").read_text() == "the only copy"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("short_description: .*", "short_description: " + "x" * 61, "short_description"),
        ("colorFrom: .*", "colorFrom: mauve", "colorFrom"),
        ("sdk: .*", "sdk: docker", "sdk"),
        ("sdk_version: .*", "sdk_version: 6.0.0", "sdk_version"),
        ("python_version: .*", "python_version: 3.11", "python_version"),
        ("python_version: .*", 'python_version: "3.9"', "python_version"),
        ("app_file: .*", "app_file: main.py", "app_file"),
        ("emoji: .*", "emojis: x", "emoji"),
        ("pinned: .*|tags:", "hardware: big\ntags:", "hardware"),
        ("suggested_hardware: .*", "suggested_hardware: abacus", "suggested_hardware"),
        ("title: .*", "title: [", "YAML"),
        ("---\n", "", "front matter"),
    ],
)
def test_a_wrong_front_matter_is_one_sentence(old: str, new: str, named: str, little: Path, tmp_path: Path) -> None:
    edited(little / "README.md", lambda text: re.sub(old, new, text, count=1))
    with pytest.raises(InputError, match=named) as caught:
        stage(little, tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_what_the_hub_would_refuse_is_one_sentence(little: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stage(little, out)
    (out / "assets" / "new.bin").write_bytes(b"\0")
    with pytest.raises(InputError, match=re.escape("without assets/new.bin")):
        check(little, out)
    (out / "assets" / "new.bin").unlink()
    (out / "assets" / "new.txt").write_bytes(b"x" * (LARGEST_PLAIN + 1))
    with pytest.raises(InputError, match="over 10 MB"):
        check(little, out)
    edited(out / ATTRIBUTES, lambda text: f"{text}assets/new.txt {LFS}\n")
    assert check(little, out).large == ("assets/new.txt",)


def test_an_import_without_its_requirement_is_one_sentence(little: Path, tmp_path: Path) -> None:
    (little / "pcg" / "late.py").write_text("import json\n\ndef work():\n    from playwright.sync_api import Page\n")
    with pytest.raises(InputError, match=re.escape("pcg/late.py imports it")):
        stage(little, tmp_path / "out")
    (little / "requirements-dev.txt").write_text("-r requirements.txt\nplaywright==1\n")
    (little / "pcg" / "late.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere\n")
    stage(little, tmp_path / "out")


@pytest.mark.slow
def test_all_imports_are_found_and_covered(space: Path) -> None:
    imported = third_party(space)
    assert {"gradio", "spaces", "torch", "resemblyzer", "umap", "yaml", "espeakng_loader"} <= imported.keys()
    requirements = read_requirements(space / "requirements.txt")
    without = [each for each in requirements if each.name != "faster-whisper"]
    assert set(uncovered(imported, without)) - set(uncovered(imported, requirements)) == {"faster_whisper"}
    assert set(uncovered(imported, requirements)) <= {"axe_playwright_python", "espeakng_loader", "playwright", "ray"}


def test_a_space_of_llasa_names_its_weights_and_asks_for_a_gpu(little: Path, tmp_path: Path) -> None:
    plain, large = stage(little, tmp_path / "plain").folder, stage(little, tmp_path / "large", front_of("llasa-1b")).folder
    front = read_front_matter(large)
    assert front.models == front.preload_from_hub == [NAMES["llasa-1b"].repository, "HKUSTAudio/xcodec2-hf"]
    assert front.suggested_hardware == "zero-a10g"
    assert read_front_matter(plain).models == read_front_matter(plain).preload_from_hub == []
    assert (plain / "requirements.txt").read_text().startswith(CPU_WHEELS)
    assert CPU_WHEELS not in (large / "requirements.txt").read_text()
    assert split((plain / "README.md").read_text())[1] == split((large / "README.md").read_text())[1]


def test_a_space_installs_what_make_app_installs(space: Path) -> None:
    staged = {each.name: each for each in read_requirements(space / "requirements.txt")}
    usual = [*read_requirements(ROOT / "requirements.txt"), *read_requirements(ROOT / "requirements-nodeps.txt")]
    assert {each.name for each in usual} - staged.keys() == {"webrtcvad-wheels"}
    assert all(staged[each.name] == each for each in usual if each.name in staged)


def test_the_command_says_what_to_do_next_or_one_sentence(
    little: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pcg.serving.space.PROJECT", little)
    assert main([str(tmp_path), "--model", "gpt"]) == 2
    assert capsys.readouterr().err.startswith("space: model is 'gpt', but must be one of embedded, llasa-1b")
    assert main([str(tmp_path / "out"), "--model", "llasa-3b"]) == 0
    told = capsys.readouterr().out
    assert "through Git LFS" in told
    assert "MODEL to llasa-3b" in told


def test_changes_keep_the_text_below() -> None:
    changed = with_changes((ROOT / "README.md").read_text(encoding="utf-8"), {"pinned": True, "title": "Ω"})
    header, body = split(changed)
    assert FrontMatter.model_validate(yaml.safe_load(header)).title == "Ω"
    assert body == split((ROOT / "README.md").read_text(encoding="utf-8"))[1]


@pytest.fixture
def served(space: Path, tmp_path: Path) -> Iterator[str]:
    """`python app.py` as a Space starts it: no options, its own folder, a Space's variables and no one else's packages."""
    folder = Path(os.environ.get("SPACE", space)).resolve()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "OMP_NUM_THREADS")}
    variables = kept | {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port), "SYSTEM": "spaces"}
    python, log = os.environ.get("SPACE_PYTHON", sys.executable), tmp_path / "log.txt"
    with log.open("wb") as out:
        page = subprocess.Popen(
            [Path(python).absolute(), "app.py"], cwd=folder, env=variables, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            yield _answering(f"http://127.0.0.1:{port}", page, log)
        finally:
            page.terminate()
            page.wait(30)
    assert "Traceback" not in log.read_text()


def _answering(address: str, page: subprocess.Popen, log: Path) -> str:
    until = monotonic() + PATIENCE_SECONDS
    while monotonic() < until and page.poll() is None:
        try:
            with urlopen(address, timeout=5) as answer:
                assert answer.status == 200
                return address
        except (URLError, TimeoutError):
            sleep(0.5)
    raise AssertionError(f"the page never came: {log.read_text()[-2000:]}")


@pytest.mark.slow
def test_it_starts_and_speaks_as_a_space_would(served: str) -> None:
    page = Client(served, verbose=False, httpx_kwargs={"timeout": PATIENCE_SECONDS})
    text = "The boats are in."
    page.predict(text=text, recording=None, api_name="/generate_pcg")
    _, settings, *_ = page.predict("pcg", "", api_name="/take_settings")
    stored = Stored.from_json(settings)
    assert (stored.text, stored.settings.method) == (text, "pcg")
    sound = page.predict(settings, api_name="/repeat_take")
    assert soundfile.info(sound["value"] if isinstance(sound, dict) else sound).duration > 0.3
    with urlopen(served, timeout=PATIENCE_SECONDS) as answer:
        assert "Voice: embedded (Apache-2.0)" in answer.read().decode()
