"""`python -m pcg.serving.space build/space`: what `make space` runs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pcg.errors import InputError, PCGError
from pcg.models.hub import EMBEDDED, NAMES, XCODEC2
from pcg.places import PROJECT
from pcg.serving.space.staging import stage


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pcg.serving.space", description="Stage a Hugging Face Space, and check it.")
    parser.add_argument("out", type=Path, help="a new folder, or one that this wrote")
    parser.add_argument("--model", default=EMBEDDED, help=f"{EMBEDDED} (the default), " + ", ".join(NAMES))
    options = parser.parse_args(arguments)
    try:
        staged = stage(PROJECT, options.out, front_of(options.model))
    except PCGError as error:
        print(f"space: {error}", file=sys.stderr)
        return 2
    files, large = len(staged.files), len(staged.large)
    print(f"{files} files, {staged.size / 1e6:.0f} MB, in {staged.folder}; {large} of them go through Git LFS.")
    print(f"Upload it: hf upload OWNER/NAME {staged.folder} . --repo-type space")
    if options.model != EMBEDDED:
        print(f"In the Space's settings, set the variable MODEL to {options.model}.")
    return 0


def front_of(model: str) -> dict[str, object]:
    """What the front matter says otherwise in a Space of `model`: the Hub fetches its weights while it builds."""
    if model == EMBEDDED:
        return {}
    if model not in NAMES:
        raise InputError("model", model, f"one of {EMBEDDED}, " + ", ".join(NAMES))
    repositories = [NAMES[model].repository, XCODEC2.repository]
    hardware = {"suggested_hardware": "zero-a10g", "startup_duration_timeout": "1h"}
    return {"models": repositories, "preload_from_hub": repositories, **hardware}


if __name__ == "__main__":
    sys.exit(main())
