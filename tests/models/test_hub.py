"""Models by name: what a name means, and every way in which the hub can fail, each as one sentence. No network is asked."""

import errno
import hashlib
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import errors

from pcg.errors import AssetError, InputError, PCGError
from pcg.models import hub as room
from pcg.models.hub import (
    HubModel,
    codec_folder,
    content_digest,
    download,
    hub_model,
    model_folder,
    model_name,
    named_model,
    needs_hub,
)
from pcg.synthesis.voice import EMBEDDED, load_voice

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GIB = 2**30


def answer(kind: type[Exception], status: int) -> Exception:
    return kind(
        "The hub's own words", response=httpx2.Response(status, request=httpx2.Request("GET", "https://huggingface.co"))
    )


def without_response(cause: Exception) -> Exception:
    """What a dry run makes of an error."""
    error = errors.DryRunError("Dry run cannot be performed.")
    error.__cause__ = cause
    return error


class FakeHub:
    """`snapshot_download` over one repository of two files, not yet on this computer."""

    def __init__(self, folder: Path, size: int = GIB, fails: Exception | None = None, breaks: Exception | None = None) -> None:
        self.folder, self.size, self.fails, self.breaks = folder, size, fails, breaks
        self.calls: list[dict[str, object]] = []

    def __call__(self, **asked: object) -> object:
        self.calls.append(asked)
        if asked.get("local_files_only"):
            raise errors.LocalEntryNotFoundError("not here")
        if asked.get("dry_run"):
            if self.fails:
                raise self.fails
            names = {"config.json": 1000, "model.safetensors": self.size}
            return [SimpleNamespace(filename=n, file_size=s, will_download=True) for n, s in names.items()]
        if self.breaks:
            raise self.breaks
        self.folder.mkdir(parents=True)
        (self.folder / "model.safetensors").touch()
        return str(self.folder)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeHub]:
    def make(disk: int = 100 * GIB, memory: int = 100 * GIB, token: str | None = None, **fields: object) -> FakeHub:
        made = FakeHub(tmp_path / "models--HKUSTAudio--Llasa-1B" / "snapshots" / COMMIT, **fields)
        usage = namedtuple("Usage", "total used free")
        monkeypatch.setattr(room.shutil, "disk_usage", lambda _: usage(disk, 0, disk))
        monkeypatch.setattr(room, "free_memory", lambda device: memory)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", made)
        monkeypatch.setattr(huggingface_hub, "get_token", lambda: token)
        monkeypatch.delenv("PCG_REVISION", raising=False)
        return made

    return make


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("llasa-1b", HubModel("HKUSTAudio/Llasa-1B")),
        (f"llasa-8b@{COMMIT}", HubModel("HKUSTAudio/Llasa-8B", COMMIT)),
        ("someone/their-llasa", HubModel("someone/their-llasa")),
        ("someone/their-llasa@v2", HubModel("someone/their-llasa", "v2")),
        ("embedded", None),
        ("nowhere", None),
        ("llasa-1b@", None),
        ("../up/there", None),
        ("/etc/passwd", None),
        ("a/b/c", None),
    ],
)
def test_a_name_means_a_repository_and_a_revision(model: str, meant: HubModel | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PCG_REVISION", raising=False)
    assert hub_model(model) == meant
    assert needs_hub(model) == (meant is not None)


def test_the_variable_pins_what_the_name_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCG_REVISION", COMMIT)
    assert hub_model("llasa-1b").revision == COMMIT
    assert hub_model("llasa-1b@v1").revision == "v1"


def test_a_folder_comes_before_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someone" / "llasa").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert hub_model("someone/llasa") is None
    assert model_folder("someone/llasa", EMBEDDED) == Path("someone/llasa")
    assert model_folder("embedded", EMBEDDED) == EMBEDDED


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(
        InputError,
        match="model is 'nowhere', but must be 'embedded', llasa-1b, llasa-3b, llasa-8b, neutts-air, neutts-nano, a repository",
    ):
        load_voice("nowhere")


def test_the_model_is_known_before_the_parser_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL", raising=False)
    assert named_model(["--port", "7860"]) == "embedded"
    assert named_model(["--host", "::", "--model", "llasa-1b"]) == named_model(["--model=llasa-1b"]) == "llasa-1b"
    assert named_model(["--model"]) == "embedded"
    monkeypatch.setenv("MODEL", "llasa-3b")
    assert named_model([]) == "llasa-3b"
    assert named_model(["--model", "embedded"]) == "embedded"


def test_a_llasa_without_its_codec_needs_the_hub(tmp_path: Path, fake: Callable[..., FakeHub]) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text("{}")
    assert needs_hub(str(tmp_path / "own"))
    there = fake()
    assert codec_folder(tmp_path / "own") == there.folder
    assert there.calls[-1]["repo_id"] == "HKUSTAudio/xcodec2-hf"
    (tmp_path / "own" / "codec").mkdir()
    assert codec_folder(tmp_path / "own") == tmp_path / "own" / "codec"
    assert not needs_hub(str(tmp_path / "own"))


def test_a_download_looks_here_first_asks_for_sizes_and_names_the_commit(fake: Callable[..., FakeHub]) -> None:
    there = fake()
    folder = model_folder(f"llasa-1b@{COMMIT}", EMBEDDED)
    assert [sorted({"local_files_only", "dry_run"} & set(call)) for call in there.calls] == [
        ["local_files_only"],
        ["dry_run"],
        [],
    ]
    assert {call["revision"] for call in there.calls} == {COMMIT}
    assert not any(pattern in ("*", "*.bin", "*.pt", "*.py") for pattern in there.calls[-1]["allow_patterns"])
    assert model_name(folder) == f"HKUSTAudio/Llasa-1B@{COMMIT}"


def test_what_is_here_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_here(**asked: object) -> str:
        assert asked["local_files_only"]
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", only_here)
    assert download(HubModel("a/b")) == tmp_path


@pytest.mark.parametrize(
    ("here", "sentence"),
    [
        (
            {"disk": 2 * GIB, "size": 3 * GIB},
            "llasa-1b.* needs 3.0 GiB on the disk and 1.0 GiB to spare, but .* has 2.0 GiB free",
        ),
        ({"memory": GIB, "size": 3 * GIB}, "llasa-1b.* needs 3.0 GiB of memory on the cpu, but 1.0 GiB are free"),
    ],
)
def test_no_room_is_told_before_anything_is_downloaded(
    here: dict[str, int], sentence: str, fake: Callable[..., FakeHub]
) -> None:
    there = fake(**here)
    with pytest.raises(PCGError, match=f"(?i){sentence}"):
        load_voice("llasa-1b")
    assert there.calls[-1]["dry_run"]


@pytest.mark.parametrize(
    ("error", "token", "sentence"),
    [
        (
            answer(errors.GatedRepoError, 401),
            None,
            "gated at https://huggingface.co/HKUSTAudio/Llasa-1B: ask .* 'hf auth login'",
        ),
        (answer(errors.GatedRepoError, 403), "hf_x", "gated at .*: ask for access there with the account of your token"),
        (
            answer(errors.RepositoryNotFoundError, 401),
            None,
            "was not found on the hub: check the name or, if it is private, log",
        ),
        (answer(errors.RepositoryNotFoundError, 404), "hf_x", "was not found on the hub: check the name, and that your token"),
        (answer(errors.RevisionNotFoundError, 404), None, "has no revision 'v9': take a commit or a tag"),
        (errors.OfflineModeIsEnabled("offline"), None, "HF_HUB_OFFLINE forbids to download it: set HF_HUB_OFFLINE=0"),
        (without_response(errors.OfflineModeIsEnabled("offline")), None, "HF_HUB_OFFLINE forbids to download it"),
        (without_response(answer(errors.GatedRepoError, 403)), "hf_x", "gated at"),
        (httpx2.ConnectError("no route"), None, "could not be downloaded from the hub \\(ConnectError\\): check the network"),
        (answer(errors.HfHubHTTPError, 401), None, "The hub refuses .*: log in with 'hf auth login'"),
        (answer(errors.HfHubHTTPError, 503), None, "\\(HfHubHTTPError, status 503\\): check the network and try again"),
    ],
)
def test_every_failure_of_the_hub_is_one_sentence(
    error: Exception, token: str | None, sentence: str, fake: Callable[..., FakeHub]
) -> None:
    fake(fails=error, token=token)
    with pytest.raises(AssetError, match=sentence) as told:
        load_voice("llasa-1b@v9")
    assert str(told.value).count(". ") == 0
    assert "own words" not in str(told.value)


def test_a_disk_that_fills_up_is_told(fake: Callable[..., FakeHub]) -> None:
    fake(breaks=OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(AssetError, match="The disk is full, so HKUSTAudio/Llasa-1B was not downloaded: make room"):
        load_voice("llasa-1b")


def test_the_real_client_offline_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(AssetError, match="HKUSTAudio/Llasa-3B is not on this computer, and HF_HUB_OFFLINE forbids"):
        load_voice("llasa-3b")


def test_a_digest_is_of_the_content_or_the_name_that_the_cache_gave_it(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    known = "a" * 64
    (tmp_path / "blobs" / known).write_text("large")
    (tmp_path / "linked").symlink_to(tmp_path / "blobs" / known)
    (tmp_path / "plain").write_text("large")
    assert content_digest(tmp_path / "linked") == known
    assert content_digest(tmp_path / "plain") == hashlib.sha256(b"large").hexdigest()


def test_memory_is_that_of_the_container_if_it_has_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(room, "CGROUP", tmp_path)
    assert room.free_memory("cpu") > 2**60
    (tmp_path / "meminfo").write_text("MemTotal:  9000 kB\nMemAvailable:    4000 kB\n")
    assert room.free_memory("cpu") == 4000 * 1024
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert room.free_memory("cpu") == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert room.free_memory("cpu") == 4000 * 1024
