"""The container image: what it copies, what it starts, and as whom."""

import re
import shlex

import yaml
from packaging.requirements import Requirement

import app
from pcg.places import PROJECT as ROOT
from pcg.serving.staging import read_requirements


def test_the_container_copies_what_is_there_and_starts_the_makefiles_command() -> None:
    steps = _dockerfile()
    copied = [name for kind, rest in steps if kind == "COPY" for name in shlex.split(rest)[1:-1]]
    assert {"app.py", "pcg", "explorers", "assets", "requirements.txt"} <= set(copied)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    command = yaml.safe_load(next(rest for kind, rest in steps if kind == "CMD"))
    makefile = re.search(r"^app:.*\n\t.*bin/(python app\.py.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert command[:2] == makefile.split()[:2]
    options = app._parser().parse_args(command[2:])
    assert (options.host, options.port) == ("0.0.0.0", 7860)


def test_the_container_runs_as_nobody_special_with_the_pinned_torch() -> None:
    steps = _dockerfile()
    assert [rest for kind, rest in steps if kind == "USER"] == ["lab"]
    (wheel,) = {part for kind, rest in steps if kind == "RUN" for part in rest.split() if part.startswith("torch==")}
    pins = {each.name: each.specifier for each in read_requirements(ROOT / "requirements.txt")}
    assert Requirement(wheel.split("+")[0]).specifier == pins["torch"]


def _dockerfile() -> list[tuple[str, str]]:
    """Instruction and arguments, comments dropped and continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]
