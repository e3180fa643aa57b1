"""What commands share: options of a take, the model and the voice that they name, and the range of a count."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcg.errors import InputError
from pcg.settings import RANGES, SIMILARITIES, WHOLE, Settings

if TYPE_CHECKING:
    from pcg.groups.search import Progress
    from pcg.prompt import Reference
    from pcg.synthesizer import Synthesizer

    # What `ArgumentParser.add_subparsers` gives, which has no public name.
    Commands = argparse._SubParsersAction[Any]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Every knob of a take but the method, who speaks, and on what."""
    for name, allowed in RANGES.items():
        kind = int if name in WHOLE else float
        text = f"{allowed}" + (f" {allowed.unit}" if allowed.unit else "")
        parser.add_argument(f"--{name}", type=kind, help=f"{text} (default {getattr(Settings(), name)})")
    parser.add_argument("--similarity", help="what makes tokens alike: " + ", ".join(SIMILARITIES) + " (default cosine)")
    parser.add_argument("--adaptive", action="store_true", help="draft fewer tokens where the draft is unsure")
    parser.add_argument("--voice", help="a voice that the model knows")
    parser.add_argument("--reference", type=Path, metavar="WAV", help="a recording of 1 to 10 seconds, in place of --voice")
    parser.add_argument("--reference-text", metavar="T", help="the words in --reference")
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="embedded", help="'embedded' or a folder that holds voice.json")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: bfloat16 and CUDA graphs (default cpu)")


def add_judge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--judge",
        default="pocketsphinx",
        help="who writes down the words: pocketsphinx (the default), embedded, or, from the hub, hubert, whisper, granite",
    )


def read_settings(options: argparse.Namespace) -> Settings:
    """The settings that were given, the defaults for all others."""
    names = [
        n for n in ("method", "adaptive", "similarity", *RANGES) if isinstance(getattr(options, n, None), str | int | float)
    ]
    values = {name: getattr(options, name) for name in names}
    return Settings.from_dict(values)


def load_synthesizer(model: str, device: str, announce: "Callable[[str], Progress] | None" = None) -> "Synthesizer":
    from pcg.synthesizer import Synthesizer
    from pcg.voice import load_voice

    return Synthesizer(load_voice(model, device), announce=announce)


def find_speaker(options: argparse.Namespace, synthesizer: "Synthesizer") -> "tuple[str, Reference | None]":
    """The name of a known voice, or the name of a recording and what was read from it."""
    if options.reference is None:
        name = options.voice or next(iter(synthesizer.voice.references))
        synthesizer.voice.reference(name)
        return name, None
    if options.voice is not None:
        raise InputError("voice", options.voice, "left out when --reference is given")
    if not options.reference_text:
        raise InputError("reference-text", options.reference_text, "the words that are said in --reference")
    reference = synthesizer.voice.reference_from_audio(options.reference, options.reference_text)
    return options.reference.stem, reference


def check_count(field: str, value: int) -> None:
    if value < 1:
        raise InputError(field, value, "a whole number from 1 up")
