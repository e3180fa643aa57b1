"""pcg evaluate: a voice before its judges."""

import argparse
import json
from typing import TYPE_CHECKING

from pcg.cli.common import (
    SEVERAL_JUDGES,
    add_judge,
    add_settings,
    add_speaker_judge,
    check_count,
    find_speaker,
    judge_names,
    load_synthesizer,
    read_settings,
    settle_lookahead,
)
from pcg.errors import InputError
from pcg.settings import METHODS

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.experiments.evaluation.panel import Original
    from pcg.metrics.intelligibility import Judge
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.text.prompt import Reference


FIGURES = ("table", "stopping", "voices")
ALL = "all"


def add(commands: "Commands") -> None:
    parser = commands.add_parser("evaluate", help="WER, DNSMOS, speaker, speed, endings: the figures of a voice")
    parser.add_argument("figure", nargs="*", default=["table"], help=", ".join(FIGURES) + " (default table)")
    parser.add_argument("--method", nargs="+", default=list(METHODS), metavar="METHOD")
    add_judge(parser, more=SEVERAL_JUDGES)
    parser.add_argument("--section", nargs="+", default=["everyday", "balanced"], metavar="SECTION")
    parser.add_argument("--sentences", type=int, default=100, help="at most so many, spread over the sections (default 100)")
    parser.add_argument("--stopping", type=int, default=200, help="takes for the stopping figure (default 200)")
    add_speaker_judge(parser)
    add_settings(parser, "a voice that the model knows, or all: each sentence in every voice (stopping: in turns)")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    for name in options.figure:
        if name not in FIGURES:
            raise InputError("figure", name, "one of " + ", ".join(FIGURES))
    from pcg.experiments.evaluation.checks import stopping, voice_matrix
    from pcg.experiments.evaluation.table import evaluate
    from pcg.groups.progress import bar
    from pcg.metrics.sentences import read_sentences
    from pcg.metrics.speaker import speaker_encoder

    settings, judges = read_settings(options), judge_names(options.judge)
    written = read_sentences(*options.section)
    check_count("sentences", options.sentences)
    check_count("stopping", options.stopping)
    sentences = written[:: max(1, len(written) // options.sentences)][: options.sentences]
    synthesizer = load_synthesizer(options)
    voices, reference = _speakers(options, synthesizer)
    settings = settle_lookahead(options, settings, synthesizer)
    speaker = speaker_encoder(options.speaker_judge, options.device)
    figures: dict[str, dict[str, object]] = {}
    if "table" in options.figure:
        heard_by, original = _judges(judges, options.device), _original(voices)
        report = evaluate(
            synthesizer, sentences, options.method, voices, settings, heard_by, original, bar("utterances"), reference, speaker
        )
        figures["table"] = report.as_dict()
        print(report.table())
    if "stopping" in options.figure:
        texts = (read_sentences() * 2)[: options.stopping]
        endings = stopping(synthesizer, texts, settings, voices, reference)
        figures["stopping"] = endings.as_dict()
        limit, short = endings.hit_limit.value, endings.cut_short.value
        print(f"of {endings.n} takes {limit:.1%} hit the length limit and {short:.1%} stopped short")
    if "voices" in options.figure:
        matrix = voice_matrix(synthesizer, sentences[:8], settings, speaker=speaker)
        figures["voices"] = matrix.as_dict()
        print(matrix.table())
    if options.json:
        print(json.dumps(figures))


def _speakers(options: argparse.Namespace, synthesizer: "Synthesizer") -> "tuple[list[str], Reference | None]":
    """The voices that speak, or the name of a recording and what was read from it."""
    if options.voice == ALL and options.reference is None:
        return list(synthesizer.voice.references), None
    name, reference = find_speaker(options, synthesizer)
    return [name], reference


def _judges(names: list[str], device: str) -> "dict[str, Judge]":
    from pcg.asr.judges import load_judge
    from pcg.metrics.memory import JudgementMemory, RememberedJudge

    memory = JudgementMemory()
    return {name: RememberedJudge(load_judge(name, device), memory) for name in names}


def _original(voices: list[str]) -> "Original | None":
    """flite's own reading of a text, where flite is installed and knows the voices."""
    from pcg.training.data.corpus import known_voices, speak

    return speak if set(voices) <= set(known_voices()) else None
