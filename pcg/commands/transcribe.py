"""pcg transcribe: what recordings say, and which step of self-speculative decoding decided."""

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pcg.errors import InputError

if TYPE_CHECKING:
    from pcg.commands.common import Commands
    from pcg.recognition.self_speculative import Thresholds

# Who accepted a text, the cheapest first.
STAGES = ("ctc", "lm", "ar")


def add(commands: "Commands") -> None:
    parser = commands.add_parser("transcribe", help="write down what recordings say, by self-speculative decoding")
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--mode", default="accurate", help="ar, accurate (the default) or fast")
    parser.add_argument("--tau-ctc", type=float, help="entropy in nats below which a CTC frame is certain")
    parser.add_argument("--tau-slm", type=float, help="likelihood above which the language model accepts a token")
    parser.add_argument("--recogniser", type=Path, metavar="FOLDER", help="another recogniser than the shipped")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    import soundfile

    from pcg.recognition.embedded import EMBEDDED, load_recogniser
    from pcg.recognition.listening import listen_to_file

    thresholds = _thresholds(options)
    for file in options.file:
        if not file.is_file():
            raise InputError("audio file", str(file), "a file that is there")
    recogniser = load_recogniser(options.recogniser or EMBEDDED)
    rows = []
    for file in options.file:
        begun = perf_counter()
        heard = listen_to_file(recogniser, file, thresholds)
        rtfx = soundfile.info(file).duration / (perf_counter() - begun)
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


def _thresholds(options: argparse.Namespace) -> "Thresholds":
    """Those of the mode, each replaced where its own option is given."""
    from pcg.recognition.self_speculative import PRESETS, Thresholds

    if options.mode not in PRESETS:
        raise InputError("mode", options.mode, "one of " + ", ".join(PRESETS))
    for name, given, high in (("tau-ctc", options.tau_ctc, 10), ("tau-slm", options.tau_slm, 1)):
        if given is not None and not 0 <= given <= high:
            raise InputError(name, given, f"a number from 0 to {high}")
    preset = PRESETS[options.mode]
    ctc, lm = (
        own if own is not None else of_mode for own, of_mode in ((options.tau_ctc, preset.ctc), (options.tau_slm, preset.lm))
    )
    return Thresholds(ctc, lm)
