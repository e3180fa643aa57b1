"""Whether a model fits here: room on the disk and in memory, asked before anything is downloaded or loaded."""

import argparse
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from pcg.errors import AssetError, InputError, PCGError

GIB = 2**30
SPARE = 2**30
"""What stays free, in bytes: a full disk or memory takes other programs down."""
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def check_disk(what: str, needed: int, folder: Path) -> None:
    """Raise PCGError unless `needed` bytes of `what` can be written into `folder`, which need not be there yet."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if needed + SPARE > free:
        raise PCGError(
            f"{what} needs {_gib(needed)} on the disk and {_gib(SPARE)} to spare, but {folder} has {_gib(free)} free: "
            "make room, or set HF_HOME to a folder on a larger disk."
        )


def check_memory(what: str, needed: int, device: str) -> None:
    """Raise PCGError unless `needed` bytes of `what` fit into the free memory of "cpu" or "cuda"."""
    free = free_memory(device)
    if needed > free:
        raise PCGError(
            f"{what} needs {_gib(needed)} of memory on the {device}, but {_gib(free)} are free: "
            "close other programs, or choose a smaller model."
        )


def free_memory(device: str) -> int:
    """Bytes: of the current CUDA device, or of this computer and the container that this process is in, whichever is less."""
    if device == "cuda":
        import torch  # not above: `pcg.models.hub` is read before what has to be imported before torch

        return torch.cuda.mem_get_info()[0]
    found = [_available(), _left_in_container()]
    return min((each for each in found if each is not None), default=2**63)


def _available() -> int | None:
    """Return what Linux says new programs may have; None elsewhere."""
    try:
        return 1024 * int(_facts(MEMINFO)["MemAvailable:"])
    except (OSError, KeyError, ValueError):
        return None


def _left_in_container() -> int | None:
    """Return what the control group (version 2) leaves, cached files included; None where it sets no limit."""
    try:
        limit, used = (int((CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    try:
        cached = int(_facts(CGROUP / "memory.stat")["inactive_file"])
    except (OSError, KeyError, ValueError):
        cached = 0
    return max(0, limit - used + cached)


def _facts(path: Path) -> dict[str, str]:
    """Read the first two words of each line of a file."""
    return dict(line.split()[:2] for line in path.read_text(encoding="ascii").splitlines())


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


EMBEDDED = "embedded"
REVISION = "PCG_REVISION"
CODEC_REVISION = "PCG_CODEC_REVISION"
FILES = ("*.json", "*.safetensors", "*.jinja", "LICENSE*", "README.md")
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
SHA256 = re.compile("[0-9a-f]{64}")
NEUTTS_CODE = b'"<|speech_0|>"'


@dataclass(frozen=True)
class HubModel:
    """A repository of the hub, and a commit, a tag or a branch of it; None where none is pinned."""

    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        return self.repository if self.revision is None else f"{self.repository}@{self.revision}"


XCODEC2 = HubModel("HKUSTAudio/xcodec2-hf")
"""X-codec2 in the form that transformers reads: every LLaSA needs it, and none brings it. PCG_CODEC_REVISION pins it."""
NEUCODEC = HubModel("neuphonic/neucodec")
"""The same of NeuTTS; it, too, is pinned by PCG_CODEC_REVISION."""
NAMES = {
    "llasa-1b": HubModel("HKUSTAudio/Llasa-1B"),
    "llasa-3b": HubModel("HKUSTAudio/Llasa-3B"),
    "llasa-8b": HubModel("HKUSTAudio/Llasa-8B"),
    "neutts-air": HubModel("neuphonic/neutts-air"),
    "neutts-nano": HubModel("neuphonic/neutts-nano"),
}


def hub_model(model: str) -> HubModel | None:
    """Return what `model` means on the hub; None for a folder, the embedded voice, and what is no such name.

    model: a name of `NAMES` or OWNER/NAME, and perhaps @REVISION. A folder that is there comes before a repository.
    """
    if model == EMBEDDED or Path(model).is_dir():
        return None
    name, _, revision = model.partition("@")
    known = NAMES.get(name) or (HubModel(name) if REPOSITORY.fullmatch(name) else None)
    if known is None or ("@" in model and not revision):
        return None
    return HubModel(known.repository, revision or os.environ.get(REVISION) or known.revision)


def model_folder(model: str, embedded: Path, device: str = "cpu") -> Path:
    """Return the folder of `model`: `embedded` for the shipped voice, a folder as it is, or the local copy of a repository of
    the hub, which is downloaded if there is none. Raises InputError for anything else, and what `download` raises."""
    if model == EMBEDDED:
        return embedded
    asked = hub_model(model)
    if asked is not None:
        return download(asked, device)
    if not Path(model).is_dir():
        raise InputError("model", model, f"'{EMBEDDED}', {', '.join(NAMES)}, a repository of the hub (OWNER/NAME), or a folder")
    return Path(model)


def codec_folder(beside: Path, device: str = "cpu") -> Path:
    """Return the folder `codec/` in that of a model from the hub, or else the local copy of X-codec2 or NeuCodec."""
    own = beside / "codec"
    if own.is_dir():
        return own
    codec = NEUCODEC if is_neutts(beside) else XCODEC2
    return download(HubModel(codec.repository, os.environ.get(CODEC_REVISION) or codec.revision), device)


def named_model(arguments: Sequence[str]) -> str:
    """Return the model that a command line or the variable MODEL names, before the real parser can be imported."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", nargs="?", default=os.environ.get("MODEL"))
    return parser.parse_known_args(arguments)[0].model or EMBEDDED


def is_from_hub(folder: Path) -> bool:
    """Return whether a folder holds a LLaSA or a NeuTTS (`is_neutts`), and no voice of our own."""
    return (folder / "config.json").is_file() and not (folder / "voice.json").is_file()


def is_neutts(folder: Path) -> bool:
    """Return whether the model in a folder speaks NeuTTS's tokens, as its tokenizer alone tells: its Nano is a Llama."""
    tokenizer = folder / "tokenizer.json"
    return tokenizer.is_file() and NEUTTS_CODE in tokenizer.read_bytes()


def needs_hub(model: str) -> bool:
    """Return whether `model` is a name of the hub, or a model whose codec is, whatever of it is on this computer."""
    return hub_model(model) is not None or (is_from_hub(Path(model)) and not (Path(model) / "codec").is_dir())


def content_digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; of a large one in the hub's cache it is the name of what it links to."""
    blob = file.resolve()
    if blob.parent.name == "blobs" and SHA256.fullmatch(blob.name):
        return blob.name
    found = blob.stat()
    return _digest(blob, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=256)
def _digest(file: Path, stamp: tuple[int, ...]) -> str:
    """stamp: another one whenever the file may have changed. A page asks for the same files three times as it begins."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def model_name(folder: Path) -> str:
    """Return the name of what lies in `folder`: of a repository in the hub's cache OWNER/NAME@COMMIT, else the folder's own."""
    owner = folder.parent.parent.name
    if folder.parent.name == "snapshots" and owner.startswith("models--"):
        return f"{owner.removeprefix('models--').replace('--', '/', 1)}@{folder.name}"
    return folder.resolve().name


def download(model: HubModel, device: str = "cpu") -> Path:
    """Return the local copy of a repository, made on first use if disk and memory have room, with bars on standard error.

    Raises PCGError: one sentence for a hub out of reach, a repository, a revision or a token missing, a gate, no room.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils import enable_progress_bars

    fetch = partial(snapshot_download, repo_id=model.repository, revision=model.revision, allow_patterns=list(FILES))
    try:
        return Path(fetch(local_files_only=True))
    except LocalEntryNotFoundError:  # not there, or not whole
        pass
    try:
        _check_room(model, fetch(dry_run=True), device)
        enable_progress_bars()
        folder = Path(fetch())
    except PCGError:
        raise
    except Exception as error:
        raise AssetError(_explained(model, error)) from error
    if not any(folder.glob("*.safetensors")):
        raise AssetError(f"{model} has no safetensors on the hub, and nothing else is read: choose another repository.")
    return folder


def _check_room(model: HubModel, files: list, device: str) -> None:
    """files: what a dry run lists (`DryRunFileInfo`)."""
    from huggingface_hub.constants import HF_HUB_CACHE

    check_disk(str(model), sum(f.file_size or 0 for f in files if f.will_download), Path(HF_HUB_CACHE))
    check_memory(str(model), sum(f.file_size or 0 for f in files if f.filename.endswith(".safetensors")), device)


def _explained(model: HubModel, error: Exception) -> str:
    """Return one sentence that says what to do."""
    from huggingface_hub import errors, get_token

    page, causes = f"https://huggingface.co/{model.repository}", [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    login, has_token = "log in with 'hf auth login' or set HF_TOKEN", bool(get_token())
    account = " with the account of your token" if has_token else f", then {login}"
    name = ", and that your token may read it" if has_token else f" or, if it is private, {login}"
    sentences = {
        errors.GatedRepoError: f"{model} is gated at {page}: ask for access there{account}.",
        errors.RevisionNotFoundError: f"{model.repository} has no revision {model.revision!r}: take a commit or a tag that "
        f"{page}/commits lists.",
        errors.RepositoryNotFoundError: f"{model} was not found on the hub: check the name{name}.",
        errors.OfflineModeIsEnabled: f"{model} is not on this computer, and HF_HUB_OFFLINE forbids to download it: set "
        "HF_HUB_OFFLINE=0.",
    }
    for kind, sentence in sentences.items():
        if any(isinstance(cause, kind) for cause in causes):
            return sentence
    if any(isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT) for cause in causes):
        return f"The disk is full, so {model} was not downloaded: make room, or set HF_HOME to a folder on a larger disk."
    code = next((r.status_code for e in causes if (r := getattr(e, "response", None)) is not None), None)
    if code in (401, 403):
        return f"The hub refuses {model}: {login}, with a token that may read it."
    kind = f"{type(error).__name__}{f', status {code}' if code else ''}"
    return f"{model} could not be downloaded from the hub ({kind}): check the network and try again; what has come is kept."


def weights_digest(folder: Path) -> str:
    """Return a SHA-256 of one model, in hexadecimal: of the config.json and the safetensors in `folder` itself."""
    digest = hashlib.sha256()
    for file in sorted([folder / "config.json", *folder.glob("*.safetensors")]):
        digest.update(bytes.fromhex(content_digest(file)))
    return digest.hexdigest()


def add_content(digest: "hashlib._Hash", folder: Path) -> None:
    """Add all that a model is read from to `digest`, without cards and the map of codes. Raises AssetError."""
    files = [f for f in sorted(folder.rglob("*")) if f.suffix in (".json", ".safetensors") and not f.name.startswith("atlas-")]
    if not files:
        raise AssetError(f"The model in {folder} is missing.")
    for file in files:
        digest.update(file.relative_to(folder).as_posix().encode())
        try:
            digest.update(bytes.fromhex(content_digest(file)))
        except OSError as error:
            raise AssetError(f"The model file {file} cannot be read ({error}).") from error
