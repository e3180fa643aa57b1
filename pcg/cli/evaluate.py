"""pcg evaluate: a voice before its judges."""

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcg.cli.common import (
    add_judge,
    add_settings,
    add_speaker_judge,
    check_count,
    find_speaker,
    load_synthesizer,
    read_settings,
    settle_lookahead,
)
from pcg.errors import InputError
from pcg.settings import METHODS

if TYPE_CHECKING:
    import numpy as np

    from pcg.cli.common import Commands


FIGURES = ("table", "stopping", "voices")


def add(commands: "Commands") -> None:
    parser = commands.add_parser("evaluate", help="WER, DNSMOS, speaker, speed, endings: the figures of a voice")
    parser.add_argument("figure", nargs="*", default=["table"], help=", ".join(FIGURES) + " (default table)")
    parser.add_argument("--method", nargs="+", default=list(METHODS), metavar="METHOD")
    add_judge(parser)
    parser.add_argument("--section", nargs="+", default=["everyday", "balanced"], metavar="SECTION")
    parser.add_argument("--sentences", type=int, default=100, help="at most so many, spread over the sections (default 100)")
    parser.add_argument("--stopping", type=int, default=200, help="takes for the stopping figure (default 200)")
    add_speaker_judge(parser)
    add_settings(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    for name in options.figure:
        if name not in FIGURES:
            raise InputError("figure", name, "one of " + ", ".join(FIGURES))
    from pcg.experiments.evaluation.checks import stopping, voice_matrix
    from pcg.experiments.evaluation.table import evaluate
    from pcg.groups.progress import bar
    from pcg.metrics.memory import JudgementMemory, RememberedJudge
    from pcg.metrics.sentences import read_sentences
    from pcg.metrics.speaker import speaker_encoder
    from pcg.recognition.judges import load_judge

    settings = read_settings(options)
    written = read_sentences(*options.section)
    check_count("sentences", options.sentences)
    check_count("stopping", options.stopping)
    sentences = written[:: max(1, len(written) // options.sentences)][: options.sentences]
    synthesizer = load_synthesizer(options.model, options.device, draft=options.draft)
    name, reference = find_speaker(options, synthesizer)
    settings = settle_lookahead(options, settings, synthesizer)
    speaker = speaker_encoder(options.speaker_judge, options.device)
    figures: dict[str, dict[str, object]] = {}
    if "table" in options.figure:
        judge = RememberedJudge(load_judge(options.judge, options.device), JudgementMemory())
        report = evaluate(
            synthesizer, sentences, options.method, name, settings, judge, _original(name), bar("sentences"), reference, speaker
        )
        figures["table"] = report.as_dict()
        print(report.table())
    if "stopping" in options.figure:
        texts = (read_sentences() * 2)[: options.stopping]
        endings = stopping(synthesizer, texts, settings, name, reference)
        figures["stopping"] = endings.as_dict()
        limit, short = endings.hit_limit.value, endings.cut_short.value
        print(f"of {endings.n} takes {limit:.1%} hit the length limit and {short:.1%} stopped short")
    if "voices" in options.figure:
        matrix = voice_matrix(synthesizer, sentences[:8], settings, speaker=speaker)
        figures["voices"] = matrix.as_dict()
        print(matrix.table())
    if options.json:
        print(json.dumps(figures))


def _original(voice: str) -> "Callable[[str], np.ndarray] | None":
    """flite's own reading of a text, where flite is installed and knows the voice."""
    import shutil
    import subprocess

    if shutil.which("flite") is None:
        return None
    known = subprocess.run(["flite", "-lv"], capture_output=True, text=True, check=False).stdout.split()
    if voice not in known:
        return None
    from pcg.training.data.corpus import speak

    return lambda text: speak(voice, text)
