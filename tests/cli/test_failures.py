"""What fails outside of a command or was foreseen by nobody: one sentence, exit code 2, nothing half written."""

import os
import re
import subprocess
import sys

import pytest

from pcg import errors
from pcg.cli import main
from pcg.experiments.store import Store
from tests.experiments.synthetic import CONTEXT, record


@pytest.fixture
def commands(model, tmp_path):
    """What writes a user's file, by the option that names it."""
    from pcg.experiments.grids import ar

    store = Store(tmp_path / "results")
    one = record(ar(), 0, context=CONTEXT | {"voice": "voice", "model": "tiny"})
    store.add(one.unit.key("voice"), one)
    return {
        "speak": ["speak", "hello", "--model", model, "--method", "ar", "--out"],
        "report": ["report", str(tmp_path / "results"), "--out"],
    }


def refused(arguments, capsys):
    """What the command says where it fails."""
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("pcg: ")
    assert len(said.strip().splitlines()) == 1
    return said


@pytest.mark.parametrize("name", ["speak", "report"])
def test_a_file_that_cannot_be_written_is_one_sentence_and_leaves_no_half_file(commands, tmp_path, little_room, capsys, name):
    there, pipe = tmp_path / "there.wav", tmp_path / "pipe.wav"
    there.mkdir()
    os.mkfifo(pipe)
    assert "it is a folder" in refused([*commands[name], str(there)], capsys)
    assert "it is a device" in refused([*commands[name], str(pipe)], capsys)
    assert "cannot be written" in refused([*commands[name], "/dev/null/inside/out.wav"], capsys)
    with little_room():
        assert "cannot be written" in refused([*commands[name], str(there / "out.wav")], capsys)
    assert pipe.is_fifo()
    assert not list(there.iterdir())
    assert not (tmp_path / "results.json").exists()


def test_an_error_that_nobody_foresaw_is_one_sentence_with_a_reference(model, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("pcg.errors.LOG", tmp_path / "cache" / "errors.log")
    monkeypatch.setattr("pcg.text.reading.check_text", lambda text: 1 / 0)
    said = refused(["speak", "hello", "--model", model], capsys)
    found = re.fullmatch(r"pcg: Unexpected ZeroDivisionError; see reference ([0-9a-f]{8}) in cache/errors\.log\.\n", said)
    assert found[1] in errors.LOG.read_text()


def test_a_package_that_is_not_here_is_one_sentence_that_tells_how_it_comes(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = 'pcg: uvicorn is not installed: pip install "pcg-lab[app] @ git+URL" brings what this command needs.\n'
    assert refused(["serve"], capsys) == said


@pytest.mark.parametrize(("listener", "code", "told"), [("full", 2, "pcg: The disk is full"), ("gone", 141, "")])
def test_standard_output_that_takes_nothing_ends_the_command_without_a_traceback(tmp_path, listener, code, told):
    run = f"import sys; from pcg import errors; from pathlib import Path; errors.LOG = Path({str(tmp_path / 'errors.log')!r}); "
    run += "from pcg.cli import main; sys.exit(main(['experiment', 'list']))"
    if listener == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, out = os.pipe()
        os.close(reader)
    done = subprocess.run([sys.executable, "-c", run], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    os.close(out)
    assert done.returncode == code
    assert done.stderr.startswith(told)
    assert len(done.stderr.splitlines()) == bool(told)
