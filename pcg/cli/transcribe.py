"""pcg transcribe: what recordings say, and which step of self-speculative decoding decided."""

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pcg.errors import InputError

if TYPE_CHECKING:
    from pcg.asr.word_search import Way
    from pcg.cli.common import Commands

# Who accepted a text, the cheapest first.
STAGES = ("ctc", "lm", "ar", "words")


def add(commands: "Commands") -> None:
    parser = commands.add_parser("transcribe", help="write down what recordings say, by self-speculative decoding")
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument(
        "--mode",
        default="accurate",
        help="ar, accurate (the default), fast, or words: among listed words, slower, with the fewest errors",
    )
    parser.add_argument("--tau-ctc", type=float, help="entropy in nats below which a CTC frame is certain")
    parser.add_argument("--tau-slm", type=float, help="likelihood above which the language model accepts a token")
    parser.add_argument("--recogniser", type=Path, metavar="FOLDER", help="another recogniser than the shipped")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    from pcg.asr.embedded import EMBEDDED, load_recogniser
    from pcg.asr.listening import listen_to_file

    way = _way(options)
    for file in options.file:
        if not file.is_file():
            raise InputError("audio file", str(file), "a file that is there")
    recogniser = load_recogniser(options.recogniser or EMBEDDED)
    rows = []
    for file in options.file:
        begun = perf_counter()
        heard = listen_to_file(recogniser, file, way)
        rtfx = heard.seconds / (perf_counter() - begun)
        parts = [
            {"start": round(start, 3), "text": part.text, "stage": part.stage, "accepted": part.accepted_text}
            for start, part in zip(heard.starts, heard.parts, strict=True)
        ]
        stage = max((part.stage for part in heard.parts), key=STAGES.index, default="ctc")
        row = {"file": str(file), "text": heard.text, "stage": stage, "rtfx": round(rtfx, 2), "judge": recogniser.name}
        rows.append({**row, "parts": parts})
        print(f"{file}: {heard.text}")
    if options.json:
        print(json.dumps(rows[0] if len(rows) == 1 else rows))


def _way(options: argparse.Namespace) -> "Way":
    """The mode's; each of its thresholds is replaced where its own option is given."""
    from pcg.asr.judges import way_of
    from pcg.asr.self_speculative import Thresholds

    preset = way_of(options.mode)
    for name, given, high in (("tau-ctc", options.tau_ctc, 10), ("tau-slm", options.tau_slm, 1)):
        if given is not None and not 0 <= given <= high:
            raise InputError(name, given, f"a number from 0 to {high}")
    if not isinstance(preset, Thresholds):
        if (options.tau_ctc, options.tau_slm) != (None, None):
            raise InputError("mode", options.mode, "ar, accurate or fast, where there are thresholds")
        return preset
    ctc, lm = (
        own if own is not None else of_mode for own, of_mode in ((options.tau_ctc, preset.ctc), (options.tau_slm, preset.lm))
    )
    return Thresholds(ctc, lm)
