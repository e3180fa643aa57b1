"""The middleware of the servers: names, origins and frames; sizes of bodies and uploads; files that go with their server."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pcg.serving import protection
from pcg.serving.protection import LIMITS, Bodies, Guard, current_visitor, own_folder


async def tell_visitor(scope, receive, send):
    await PlainTextResponse(current_visitor())(scope, receive, send)


async def fail(scope, receive, send):
    raise OverflowError("a secret of the program")


def guard(app=tell_visitor, hosts=("pcg.example", "*.spaces.example")):
    return Guard(
        app, hosts, lambda error: f"Logged {type(error).__name__}.", re.compile("/|/open/.*"), ["https://frames.example"]
    )


def test_it_answers_to_its_own_names_and_open_paths_and_to_no_other(ask):
    sent = ask(guard())
    own = ["localhost", "LOCALHOST:7860", "lab.localhost", "127.0.0.1:7860", "[::1]:7860", "pcg.example", "a.spaces.example"]
    for host in own:
        assert sent("GET", "/", headers={"host": host}).text == "10.0.0.1"
    others = ["evil.example", "spaces.example", "pcg.example.evil", "127.0.0.1.evil.example", "", "[::1", "127.0.0.1@a.example"]
    for host in others:
        answer = sent("GET", "/", headers={"host": host})
        assert answer.status_code == 421
        assert answer.json()["detail"].startswith("This server does not answer to the name ")
    for path in ("/monitoring", "/open", "/x/open/a"):
        assert sent("GET", path).status_code == 404


def test_a_page_of_another_server_may_not_post(ask):
    sent = ask(guard())
    assert sent("POST", "/", headers={"origin": "https://evil.example"}).status_code == 403
    assert sent("POST", "/", headers={"origin": "null"}).status_code == 403
    assert sent("GET", "/", headers={"origin": "https://evil.example"}).status_code == 200
    assert sent("POST", "/", headers={"origin": "http://localhost"}).status_code == 200
    assert sent("POST", "/").status_code == 200
    proxied = {"origin": "https://pcg.example", "x-forwarded-host": "pcg.example"}
    assert sent("POST", "/", headers=proxied).status_code == 200


def test_a_browser_is_kept_on_this_server_and_an_exception_is_one_sentence(ask):
    for path in ("/", "/nowhere"):
        headers = ask(guard())("GET", path).headers
        policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'self'"
        assert policy["frame-ancestors"] == "'self' https://frames.example"
        assert headers["x-content-type-options"] == "nosniff"
    answer = ask(guard(fail))("GET", "/")
    assert (answer.status_code, answer.json()) == (500, {"detail": "Logged OverflowError."})


SMALL = replace(LIMITS, body=1000, upload=10_000, uploads_each_hour=25_000, kept=100_000, free=0)
UPLOAD = "/api/upload"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def server(folder: Path, limits=SMALL):
    """Stores what is uploaded, beside a leftover such as Gradio's parser leaves."""

    async def keep(request: Request) -> PlainTextResponse:
        content = await request.body()
        (folder / "tmpleft").write_bytes(content)
        kept = folder / "ab" / "sound.wav"
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(content)
        return PlainTextResponse(str(len(content)))

    async def size(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    app = Starlette(routes=[Route(UPLOAD, keep, methods=["POST"]), Route("/{path:path}", size, methods=["POST", "GET"])])
    app.add_middleware(Bodies, limits=limits, upload_path=UPLOAD, folder=lambda: folder)
    app.add_middleware(Guard, hosts=(), unexpected=str)
    return app


async def chunks(count: int, size: int = 500):
    for _ in range(count):
        yield bytes(size)


def test_bodies_and_uploads_have_limits_and_an_upload_is_kept_whole_or_leaves_nothing(ask, folder):
    sent = ask(server(folder))
    for path in ("/queue/join", "/run/upload", UPLOAD + "/", "/x" + UPLOAD):
        assert sent("POST", path, content=chunks(2)).text == "1000"
        for body in (bytes(1001), chunks(3)):
            assert sent("POST", path, content=body).status_code == 413
    assert ask(server(folder))("POST", UPLOAD, content=chunks(21)).status_code == 413
    assert list(folder.iterdir()) == []
    assert ask(server(folder))("POST", UPLOAD, content=chunks(20)).text == "10000"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["sound.wav"]


def test_a_visitor_has_a_share_of_every_hour(ask, folder, monkeypatch):
    sent = ask(server(folder))
    for _ in range(2):
        assert sent("POST", UPLOAD, content=chunks(20)).status_code == 200
    refused = sent("POST", UPLOAD, content=chunks(20))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert sent("POST", UPLOAD, content=chunks(20), client=("10.0.0.2", 1)).status_code == 200
    now = protection.monotonic()
    # Not the clock of `time` itself: by that, servers of other tests in this process would sleep for an hour.
    monkeypatch.setattr(protection, "monotonic", lambda: now + 3601)
    assert sent("POST", UPLOAD, content=chunks(20)).status_code == 200


def test_the_folder_has_a_quota_and_is_swept(ask, folder, monkeypatch):
    folder.mkdir()
    (folder / "old.wav").write_bytes(bytes(95_000))
    sent = ask(server(folder))
    assert sent("POST", UPLOAD, content=b"x").status_code == 507
    later = protection.time() + SMALL.keep_seconds + 1
    monkeypatch.setattr(protection, "time", lambda: later)
    assert sent("POST", UPLOAD, content=b"x").status_code == 200
    assert not (folder / "old.wav").exists()


def test_a_full_disk_is_one_sentence(ask, folder, monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    answer = ask(server(folder, replace(SMALL, free=1 << 62)))("POST", UPLOAD, content=b"x")
    assert (answer.status_code, answer.text) == (507, "The disk of this server is nearly full: nothing was kept.")
    monkeypatch.setattr(protection, "TemporaryFile", full)
    answer = ask(server(folder))("POST", UPLOAD, content=b"x")
    assert (answer.status_code, answer.text) == (507, "The disk of this server is full: nothing was kept.")


KEEP = """
import signal, sys, threading, time
from pcg.serving.protection import own_folder
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with own_folder("lab") as folder:
    (folder / "take.wav").write_bytes(b"sound")
    print(folder, flush=True)
    if JOB:
        def work():
            while folder.exists():
                time.sleep(0.01)
            folder.mkdir()
            (folder / "late.wav").write_bytes(b"sound")
        threading.Thread(target=work).start()
    time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def start(job: bool = False) -> tuple[subprocess.Popen[str], Path]:
    """job: whether one is running that writes a take after the folder was removed."""
    process = subprocess.Popen([sys.executable, "-c", f"JOB = {job}\n{KEEP}"], stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    os.kill(process.pid, how)
    process.communicate()


@pytest.mark.parametrize("job", [False, True])
def test_a_server_that_is_stopped_leaves_nothing(temporary: Path, job: bool) -> None:
    process, folder = start(job)
    assert folder.is_relative_to(temporary)
    assert (folder / "take.wav").exists()
    end(process, signal.SIGTERM)
    assert list(folder.parent.iterdir()) == []


def test_what_a_killed_server_left_goes_at_the_next_start_and_what_a_living_one_has_stays(temporary: Path) -> None:
    killed, left = start()
    end(killed, signal.SIGKILL)
    assert left.exists()
    nobodys = left.with_name("0123456789abcdef")
    nobodys.mkdir()
    living, kept = start()
    try:
        assert not left.exists()
        assert not nobodys.exists()
        with own_folder("lab") as own:
            assert own.is_dir()
            assert (kept / "take.wav").exists()
        assert not own.exists()
    finally:
        end(living, signal.SIGTERM)
