"""No request is larger than it may be, and no upload leaves more on the disk than it may."""

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pcg.serving import protection
from pcg.serving.protection import LIMITS, Bodies, Guard

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


@pytest.mark.parametrize("path", ["/queue/join", "/run/upload", "/call/upload", "/upload", UPLOAD + "/", "/x" + UPLOAD])
def test_every_path_but_that_of_uploads_has_the_small_limit(ask, folder, path):
    sent = ask(server(folder))
    assert sent("POST", path, content=chunks(2)).text == "1000"
    for body in (bytes(1001), chunks(3)):
        assert sent("POST", path, content=body).status_code == 413


def test_an_upload_is_kept_whole_and_alone(ask, folder):
    assert ask(server(folder))("POST", UPLOAD, content=chunks(20)).text == "10000"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["sound.wav"]


def test_an_upload_that_is_too_large_leaves_nothing(ask, folder):
    answer = ask(server(folder))("POST", UPLOAD, content=chunks(21))
    assert answer.status_code == 413
    assert list(folder.iterdir()) == []


def test_a_visitor_has_a_share_of_every_hour(ask, folder, monkeypatch):
    sent = ask(server(folder))
    for _ in range(2):
        assert sent("POST", UPLOAD, content=chunks(20)).status_code == 200
    assert sent("POST", UPLOAD, content=chunks(20)).status_code == 429
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


def test_a_disk_that_is_nearly_full_takes_nothing(ask, folder):
    answer = ask(server(folder, replace(SMALL, free=1 << 62)))("POST", UPLOAD, content=b"x")
    assert answer.status_code == 507
    assert answer.text == "The disk of this server is nearly full: nothing was kept."


def test_a_full_disk_is_one_sentence(ask, folder, monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(protection, "TemporaryFile", full)
    answer = ask(server(folder))("POST", UPLOAD, content=b"x")
    assert (answer.status_code, answer.text) == (507, "The disk of this server is full: nothing was kept.")
