import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from explorers.requests import offer_tools
from explorers.theme import launch_options
from pcg.synthesis.synthesizer import Synthesizer


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `main` sets for its process."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv(app.FILES, os.environ.get(app.FILES, "/tmp/gradio"))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("missing", ["voice.json", "target/model.safetensors", "codec/config.json"])
def test_a_missing_asset_of_the_only_voice_is_one_sentence_and_exit_2(
    missing: str, tiny_voice_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(tiny_voice_folder, tmp_path / "voice")
    (folder / missing).unlink()
    monkeypatch.setattr("pcg.synthesis.voice.EMBEDDED", folder)
    assert app.main([]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert [line for line in told if "missing" in line] == told[-1:]
    assert not any("Traceback" in line for line in told)


def test_a_busy_port_is_one_sentence(
    synthesizer: Synthesizer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "Synthesizer", lambda voice, **_: synthesizer)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert app.main(["--model", str(synthesizer.voice.folder), "--host", "127.0.0.1", "--port", str(port)]) == 2
    assert f"host and port is '127.0.0.1:{port}', but must be a free address of this computer.\n" in capsys.readouterr().err


def test_tools_without_their_package_are_one_sentence(
    synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "Synthesizer", lambda voice, **_: synthesizer)
    monkeypatch.setattr("explorers.requests.find_spec", lambda name: None)
    assert app.main(["--model", str(synthesizer.voice.folder), "--mcp"]) == 2
    assert capsys.readouterr().err == "The MCP server needs one more package: pip install -r requirements-mcp.txt.\n"


def test_tools_are_called_as_their_endpoints(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorers.requests.find_spec", lambda name: object())
    page = app.build_page(synthesizer)
    offer_tools(page)
    names = [e.fn.__name__ for e in page.fns.values() if isinstance(e.api_name, str) and e.api_visibility == "public"]
    assert sorted(names) == ["experiments", "generate", "swap", "token_group", "transcribe"]


def test_nothing_is_shared_or_kept_by_default_and_a_space_offers_tools_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorers.requests.find_spec", lambda name: object())
    options = app._parser().parse_args([])
    assert (options.share, options.mcp) == (False, False)
    monkeypatch.setenv("SPACE_ID", "someone/lab")
    assert app._parser().parse_args([]).mcp is True
    served = launch_options()
    assert served["run_history"] is False
    assert not any("google" in str(font).lower() for font in served["theme"]._font)
