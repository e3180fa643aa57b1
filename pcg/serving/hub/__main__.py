"""`python -m pcg.serving.hub build/hub`: what `make hub-generate` runs."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from pcg.errors import InputError, PCGError
from pcg.files import __version__, replacing

HERE = Path(__file__).parent


def stage(out: Path) -> list[Path]:
    """Write what a repository of the Hub has to hold into `out`; return the files."""
    if out.exists() and not out.is_dir():
        raise InputError("out", str(out), "a folder")
    inner = out / "custom_generate"
    files = {out / "README.md": HERE / "README.md", inner / "generate.py": HERE / "generate.py"}
    for place, source in files.items():
        with replacing(place) as temporary:
            shutil.copyfile(source, temporary)
    with replacing(inner / "requirements.txt") as temporary:
        temporary.write_text(f"pcg-lab>={__version__}\n", encoding="utf-8")
    return [*files, inner / "requirements.txt"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pcg.serving.hub", description="Stage the loop for transformers as a Hub repository.")
    parser.add_argument("out", type=Path, help="a folder")
    options = parser.parse_args(arguments)
    try:
        files = stage(options.out)
    except PCGError as error:
        print(f"hub-generate: {error}", file=sys.stderr)
        return 2
    print(f"{len(files)} files in {options.out}. Upload them: hf upload OWNER/pcg {options.out} .")
    return 0


if __name__ == "__main__":
    sys.exit(main())
