"""The documents keep their bounds, name what is there, and link to what is there."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from pcg.cli import create_app
from pcg.places import PROJECT
from pcg.settings import Settings

FIELDS = Settings.model_fields
README, CONTRIBUTING = PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"
DOCUMENTS = (README, CONTRIBUTING, PROJECT / "CHANGELOG.md", *sorted((PROJECT / "docs").glob("*.md")))
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HOUSES = ("pcg", "explorers")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_documents_keep_their_bounds() -> None:
    bounds = {"README.md": (120, 1200), "CONTRIBUTING.md": (120, 2000), "docs/results.md": (300, 2500)}
    for name, (lines, words) in (bounds | {"docs/performance.md": (200, 1450), "docs/api.md": (300, 1450)}).items():
        text = text_of(PROJECT / name)
        assert (len(text.splitlines()) <= lines, len(text.split()) <= words) == (True, True), name
    assert [line for line in text_of(README).splitlines() if len(line) > 110 and not line.startswith("|")] == []


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    """A cell has the first numbers of that table's cell."""
    results = json.loads(text_of(PROJECT / "assets" / "results" / "results.json"))
    overview = next(table for table in results["tables"] if table["name"] == "overview")
    made = {row[0]: dict(zip(overview["columns"], row, strict=True)) for row in overview["shown"]}
    columns = ("speed-up", "tokens per target call", "accepted of tested %", "WER %", "NLL to AR, nats")
    lines = [line.split("|")[1:-1] for line in text_of(README).splitlines() if re.match(r"\| .*[\d%] \[[-+\d]", line)]
    assert {name.strip() for name, *_ in lines} == set(made)
    for name, column, cell in ((name.strip(), *pair) for name, *cells in lines for pair in zip(columns, cells, strict=True)):
        ours, theirs = (re.findall(r"-?\d+\.?\d*", text) for text in (cell, made[name][column]))
        assert list(map(float, ours)) == list(map(float, theirs[: len(ours)])), (name, column)


def tracked(*patterns: str) -> list[Path]:
    if shutil.which("git") is None or not (PROJECT / ".git").exists():
        pytest.skip("no git here to say what belongs to the project")
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=PROJECT, capture_output=True, text=True, check=True)
    return list(map(Path, listed.stdout.splitlines()))


def mapped() -> list[str]:
    """The paths in the first column of the map."""
    block = re.search(r"## The map\n\n```\n(.*?)```", text_of(CONTRIBUTING), re.DOTALL)
    assert block is not None
    return [line.split()[0] for line in block[1].splitlines()]


def test_the_map_names_every_folder_and_nothing_else() -> None:
    folders = {f"{parent.as_posix()}/" for file in tracked(*HOUSES) for parent in file.parents} - {"./"}
    assert folders - set(mapped()) == set()
    assert [path for path in mapped() if not (PROJECT / path).exists()] == []
    assert len(mapped()) == len(set(mapped()))


def test_no_file_is_longer_than_700_lines() -> None:
    files = tracked(*(f"{house}/*.{kind}" for house in (*HOUSES, "tests") for kind in ("py", "js", "css")))
    assert len(files) > 100
    assert [file.name for file in files if len(text_of(PROJECT / file).splitlines()) > 700] == []


def test_the_settings_of_the_api_are_those_of_settings() -> None:
    rows = [
        f"| `{name}` | {field.default} | {Settings.allowed(name)} | {field.description} |\n" for name, field in FIELDS.items()
    ]
    assert f"|---|---|---|---|\n{''.join(rows)}\n" in text_of(PROJECT / "docs" / "api.md")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", text_of(document))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        to = document.parent / name if name else document
        if not to.exists() or (anchor and anchor not in anchors(to)):
            broken.append(link)
    assert broken == []


def anchors(document: Path) -> set[str]:
    """The names that GitHub gives the headings."""
    heads = re.findall(r"^#+ (.+)$", CODE.sub("", text_of(document)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_files_that_a_document_names_are_there(document: Path) -> None:
    named = set(re.findall(r"(?<![\w/.-])((?:pcg|explorers|tests|assets)/[\w./-]*\w/?)", text_of(document)))
    assert [path for path in sorted(named) if not (PROJECT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_of_a_document_have_these_options(document: Path, capsys) -> None:
    for block in CODE.findall(text_of(document)):
        for line in re.findall(r"^python -m pcg (.+)", block, re.MULTILINE):
            words = shlex.split(line, comments=True)
            parse(words[: words.index("|")] if "|" in words else words)


def parse(words: list[str]) -> None:
    """Read a command line without running it."""
    command, parent, name = typer.main.get_command(create_app()), None, "pcg"
    while command:
        context = command.make_context(name, list(words), parent)
        words = [*getattr(context, "_protected_args", ()), *context.args] if hasattr(command, "commands") else []
        name, command, words = command.resolve_command(context, words) if words else ("", None, [])
        parent = context


def test_the_readmes_lines_of_python_write_a_sound(tiny_voice_folder, tmp_path, monkeypatch) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", text_of(README), re.DOTALL)
    assert len(snippet.splitlines()) <= 8
    run_snippet(snippet, tiny_voice_folder, tmp_path, monkeypatch)
    assert (tmp_path / "speech.wav").stat().st_size > 1000


def test_the_first_example_of_the_api_writes_a_sound(tiny_voice_folder, tmp_path, monkeypatch, capsys) -> None:
    snippet = re.findall(r"```python\n(.*?)```", text_of(PROJECT / "docs" / "api.md"), re.DOTALL)[0]
    run_snippet(snippet, tiny_voice_folder, tmp_path, monkeypatch)
    assert (tmp_path / "speech.wav").stat().st_size > 1000
    assert re.fullmatch(r"\d+ tokens/s, \d+% of the drafted tokens accepted\n", capsys.readouterr().out)


def run_snippet(snippet: str, voice: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert snippet.count('"embedded"') == 1
    assert '"heart"' in snippet
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", folder)
    monkeypatch.chdir(folder)
    exec(snippet.replace('"embedded"', repr(str(voice))).replace('"heart"', '"one"'), {})


def test_the_workflow_runs_the_makefiles_tests() -> None:
    workflow = yaml.safe_load(text_of(PROJECT / ".github" / "workflows" / "test.yml"))
    (job,) = workflow["jobs"].values()
    assert set(re.findall(r"'(test[\w-]*)'", job["env"]["TARGET"])) == {"test", "test-all"}
    assert job["steps"][-1]["run"] == 'make "$TARGET"'


def test_nothing_recommends_a_package_index_which_does_not_have_this_project() -> None:
    named = [*DOCUMENTS, *(path for house in HOUSES for path in (PROJECT / house).rglob("*") if path.suffix in (".py", ".md"))]
    found = re.compile(r"pip install\s+['\"]?pcg-lab(?!(?:\[[\w,]+\])? @ git\+)")
    assert len(named) > 100
    assert [path.name for path in named if found.search(text_of(path))] == []
