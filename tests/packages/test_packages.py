"""What an install with hashes installs is what an install without them asks for."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pcg.errors import PCGError
from pcg.metrics.quality import Resemblyzer
from pcg.places import PROJECT
from pcg.serving.staging import read_requirements

LISTS = ("requirements.txt", "requirements-nodeps.txt")
LOCK = (PROJECT / "requirements.lock").read_text(encoding="utf-8")


def locked() -> list[tuple[Requirement, list[str]]]:
    """Every entry of the lock file, with its hashes."""
    lines = [line for line in LOCK.replace("\\\n", "").splitlines() if line and not line.lstrip().startswith("#")]
    parts = [line.split("--hash=") for line in lines]
    return [(Requirement(named), [each.strip() for each in hashes]) for named, *hashes in parts]


def test_every_pin_is_locked_in_its_version() -> None:
    known = {(canonicalize_name(each.name), str(each.specifier)) for each, _ in locked()}
    pins = [each for name in LISTS for each in read_requirements(PROJECT / name)]
    assert len(pins) > 25
    assert [str(each) for each in pins if (canonicalize_name(each.name), str(each.specifier)) not in known] == []


def test_every_locked_package_has_one_version_and_its_hashes_and_no_index() -> None:
    assert "://" not in LOCK
    assert "--index" not in LOCK
    assert len(locked()) > 100
    for each, hashes in locked():
        assert re.fullmatch(r"==[\w.]+", str(each.specifier)), each
        assert hashes, each
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", value) for value in hashes), each


def test_the_pins_are_the_packages_that_the_library_and_the_page_ask_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {
        canonicalize_name(each.name): each.specifier
        for each in map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["app"]])
    }
    pinned = {canonicalize_name(each.name): str(each.specifier) for each in read_requirements(PROJECT / LISTS[0])}
    assert asked.keys() == pinned.keys()
    assert [name for name, version in pinned.items() if version.removeprefix("==") not in asked[name]] == []


@pytest.mark.parametrize("extra", ["cluster", "dev", "int8", "mcp", "train"])
def test_an_extra_asks_for_what_its_list_pins_and_for_the_page(extra: str) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {each.name: each for each in map(Requirement, project["optional-dependencies"][extra])}
    pins = read_requirements(PROJECT / f"requirements-{extra}.txt")
    assert asked.keys() == {"pcg-lab", *(each.name for each in pins)}
    for each in pins:
        assert str(each.specifier).removeprefix("==") in asked[each.name].specifier, each
        assert each.extras == asked[each.name].extras


def test_who_has_no_resemblyzer_is_told_of_the_one_that_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    (pin,) = read_requirements(PROJECT / LISTS[1])
    assert f"pip install --no-deps {pin}" in (PROJECT / "docs/api.md").read_text(encoding="utf-8")
    monkeypatch.setitem(sys.modules, "resemblyzer", None)
    with pytest.raises(PCGError, match=f"pip install --no-deps {pin} first"):
        Resemblyzer()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_tests_of_ray_have_ray_where_all_tests_run(tmp_path: Path) -> None:
    make = ["make", "--dry-run", "test-all", f"VENV={tmp_path}"]
    said = subprocess.run(make, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert "requirements-cluster.txt" in re.findall(r"-r (\S+)", said)
