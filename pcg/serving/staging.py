"""Folders for the Hugging Face Hub: a Space that serves the page, and a repository for transformers' `custom_generate`.

`python -m pcg.serving.staging space OUT [--model NAME] [--repo OWNER/NAME]` and `python -m pcg.serving.staging hub OUT`.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import SpaceCard, SpaceHardware
from packaging.requirements import Requirement

from pcg.errors import InputError, PCGError
from pcg.files import __version__
from pcg.models.hub import EMBEDDED, NAMES, XCODEC2
from pcg.places import PROJECT

README = "README.md"
REQUIREMENTS = "requirements.txt"
MARK = "# Written by `make space`.\n"
DOCUMENTS = ("docs", README, "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "NOTICE")
STAGED = ("app.py", "pcg", "explorers", "assets", *DOCUMENTS, REQUIREMENTS, "pyproject.toml")
CLUTTER = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "report.html")
CPU_WHEELS = "--extra-index-url https://download.pytorch.org/whl/cpu\n"
"""Wheels without CUDA, a tenth of the download, for Spaces without a GPU."""
REPLACED = ("webrtcvad-wheels",)
"""A Space installs requirements.txt only, and so resemblyzer with all that it asks for, which this stands in for elsewhere."""
ZERO_GPU = {"suggested_hardware": SpaceHardware.ZERO_A10G.value, "python_version": "3.12", "startup_duration_timeout": "1h"}
"""ZeroGPU has Python 3.10.13 and 3.12.12, and brings one of torch 2.8.0, 2.9.1, 2.10.0 and 2.11.0 itself (the skill
huggingface-spaces of github.com/huggingface/skills, 2026): a pin of another one would stop the build."""
THUMBNAIL = "https://huggingface.co/spaces/{}/resolve/main/assets/page.png"
CUSTOM_GENERATE = Path(__file__).parent / "hub"


def stage_space(root: Path, out: Path, model: str = EMBEDDED, repo: str | None = None) -> Path:
    """Copy what a Space of the repository `root` needs into `out`, in place of what this wrote there before.

    A Space of another model than the embedded one asks for ZeroGPU, which brings torch, and for the model's weights. repo:
    the Space's OWNER/NAME, for its thumbnail. Raises InputError for a model without a name, and if `out` holds anything else.
    """
    if model not in (EMBEDDED, *NAMES):
        raise InputError("model", model, f"one of {EMBEDDED}, " + ", ".join(NAMES))
    # A clone of the Space keeps its .git.
    entries = [path for path in out.iterdir() if path.name != ".git"] if out.is_dir() else [out] if out.exists() else []
    written = out / REQUIREMENTS if out.is_dir() else out
    if entries and not (written.is_file() and written.read_bytes().startswith(MARK.encode())):
        raise InputError("out", str(out), "a new or empty folder, or one that `make space` wrote")
    for path in entries:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    out.mkdir(parents=True, exist_ok=True)
    for name in STAGED:
        if (root / name).is_dir():
            shutil.copytree(root / name, out / name, ignore=CLUTTER)
        else:
            shutil.copyfile(root / name, out / name)
    wheels, absent, facts = CPU_WHEELS, REPLACED, {"thumbnail": THUMBNAIL.format(repo)} if repo else {}
    if model != EMBEDDED:
        wheels, absent, repositories = "", (*REPLACED, "torch"), [NAMES[model].repository, XCODEC2.repository]
        facts |= ZERO_GPU | {"models": repositories, "preload_from_hub": repositories}
    if facts:
        card = SpaceCard.load(root / README)
        for name, value in facts.items():
            card.data[name] = value
        card.save(out / README)
    packages = [each for each in read_requirements(root / REQUIREMENTS) if each.name not in absent]
    packages += [p for name in ("nodeps", "mcp") for p in read_requirements(root / f"requirements-{name}.txt")]
    (out / REQUIREMENTS).write_text(MARK + wheels + "".join(f"{each}\n" for each in packages), encoding="utf-8")
    return out


def read_requirements(path: Path) -> list[Requirement]:
    """Return the packages that a file of requirements asks for, without comments and without pip's own options."""
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


def stage_custom_generate(out: Path) -> Path:
    """Write the files of a Hub repository for `generate(custom_generate=...)` into the folder `out`."""
    if out.exists() and not out.is_dir():
        raise InputError("out", str(out), "a folder")
    (out / "custom_generate").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CUSTOM_GENERATE / README, out / README)
    shutil.copyfile(CUSTOM_GENERATE / "generate.py", out / "custom_generate" / "generate.py")
    (out / "custom_generate" / REQUIREMENTS).write_text(f"pcg-lab>={__version__}\n", encoding="utf-8")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Stage a folder and print how to upload it; return the exit code."""
    parser = argparse.ArgumentParser(prog="pcg.serving.staging", description="Stage a folder for the Hugging Face Hub.")
    parser.add_argument("kind", choices=("space", "hub"), help="a Space, or the loop for transformers' custom_generate")
    parser.add_argument("out", type=Path, help="a new folder, or one that this wrote")
    parser.add_argument("--model", default=EMBEDDED, help=f"of the Space: {EMBEDDED} (the default), " + ", ".join(NAMES))
    parser.add_argument("--repo", help="of the Space: its OWNER/NAME, for its thumbnail")
    options = parser.parse_args(arguments)
    try:
        if options.kind == "hub":
            print(f"Upload it: hf upload OWNER/pcg {stage_custom_generate(options.out)} .")
        else:
            out = stage_space(PROJECT, options.out, options.model, options.repo)
            print(f"Upload it: hf upload {options.repo or 'OWNER/NAME'} {out} . --repo-type space")
            print(f"In the Space's settings, set the variable MODEL to {options.model}.")
    except PCGError as error:
        print(f"staging: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
