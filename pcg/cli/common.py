"""What commands share: options of a take, the model and the voice that they name, the range of a count; and, for those that do
units of experiments, where results lie, who does the units, and how far they are."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcg.errors import InputError
from pcg.settings import SAMPLERS, SIMILARITIES, Settings, bounds, is_numeric

MODEL = (
    "'embedded', llasa-1b, llasa-3b, llasa-8b, neutts-air, neutts-nano, OWNER/NAME of the hub (@REVISION pins it), or a folder"
)

AUTO = "auto"
RESULTS = Path("runs") / "results"
MOST_DRAFTED = 8
"""The largest lookahead that `--lookahead auto` chooses: with more drafts a pass costs a CPU twice as much."""

if TYPE_CHECKING:
    import numpy as np

    from pcg.experiments.results.tables import MeanSize
    from pcg.experiments.runner import Progress as Pace
    from pcg.experiments.unit import Record, Unit
    from pcg.experiments.worker import WorkerSpec
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.text.prompt import Reference

    # What `ArgumentParser.add_subparsers` gives, which has no public name.
    Commands = argparse._SubParsersAction[Any]


def add_settings(parser: argparse.ArgumentParser, voices: str = "a voice that the model knows") -> None:
    """Every knob of a take but the method, who speaks (voices: the help on that), and on what."""
    for name in filter(is_numeric, Settings.model_fields):
        allowed, kind = bounds(name), _count if name == "lookahead" else Settings.model_fields[name].annotation
        text = str(allowed)
        text += ", or auto: each round what pays here" if name == "lookahead" else ""
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"{text} (default {getattr(Settings(), name)})")
    parser.add_argument("--similarity", help="what makes tokens alike: " + ", ".join(SIMILARITIES) + " (default cosine)")
    parser.add_argument("--verification", help="of drafted tokens one by one, or together (sd, pcg): token (default) or block")
    parser.add_argument("--adaptive", action="store_true", help="draft fewer tokens where the draft is unsure")
    parser.add_argument("--sampler", help="how draft and target sample: " + ", ".join(SAMPLERS) + " (default plain)")
    parser.add_argument("--hierarchical", action="store_true", help="let spoof detectors choose among beams")
    parser.add_argument("--voice", help=voices)
    parser.add_argument(
        "--reference", type=Path, metavar="FILE", help="a recording in place of --voice: 1 to 10 seconds, for LLaSA 15"
    )
    parser.add_argument("--reference-text", metavar="T", help="the words in --reference (default: what the recogniser hears)")
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def _count(text: str) -> int | str:
    return AUTO if text == AUTO else int(text)


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="embedded", help=MODEL)
    add_draft(parser)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda with CUDA graphs (default cpu)")
    add_precision(parser)


def add_draft(parser: argparse.ArgumentParser) -> None:
    text = "auto (the voice's own, else three layers of the target), the name of another of the voice's, "
    text += "layers:0,1,27, lookup, none, or a folder (default auto)"
    parser.add_argument("--draft", default="auto", help=text)


def add_precision(parser: argparse.ArgumentParser) -> None:
    text = "of the target's matrix products: float32, bfloat16, or auto: bfloat16 where the machine has it (default auto)"
    parser.add_argument("--precision", default="auto", help=text)


KNOWN_JUDGES = "whisper, embedded, or, from the hub, whisper-large, hubert, granite"
BOTH_JUDGES = "whisper,embedded"
"""A claim about words takes two judges who know nothing of each other."""


def add_judge(parser: argparse.ArgumentParser, default: str = "whisper", more: str = "") -> None:
    text = f"who writes down the words: {KNOWN_JUDGES}{more} (default {default})"
    parser.add_argument("--judge", default=default, help=text)


SEVERAL_JUDGES = "; several with commas between: the first counts where there is room for one"


def judge_names(given: str) -> list[str]:
    """The judges in an option that takes several; raises InputError where one is unknown or named twice."""
    from pcg.asr.judges import JUDGES

    names = given.split(",")
    if not set(names) <= set(JUDGES) or len(set(names)) < len(names):
        raise InputError("judge", given, f"one of {', '.join(JUDGES)}, or several with commas between")
    return names


def add_speaker_judge(parser: argparse.ArgumentParser) -> None:
    text = "who compares speakers: resemblyzer (the default), wavlm (from the hub), or a folder that holds a WavLM"
    parser.add_argument("--speaker-judge", default="resemblyzer", help=text)


def read_settings(options: argparse.Namespace) -> Settings:
    """The settings that were given, the defaults for all others."""
    given = {name: getattr(options, name, None) for name in Settings.model_fields}
    if given["lookahead"] == AUTO:
        given["lookahead"] = MOST_DRAFTED
    return Settings.from_dict({name: value for name, value in given.items() if isinstance(value, str | int | float)})


def settle_lookahead(options: argparse.Namespace, settings: Settings, synthesizer: "Synthesizer") -> Settings:
    """With `--lookahead auto` and no `--lookahead-cost`, the cost as it is measured here; it is a part of the take from then
    on, so that the take can be said again."""
    from pcg.synthesis.costs import lookahead_cost

    if options.lookahead != AUTO or settings.lookahead_cost > 0 or synthesizer.voice.draft is None:
        return settings
    return settings.with_(lookahead_cost=lookahead_cost(synthesizer, settings.temperature))


def load_synthesizer(options: argparse.Namespace) -> "Synthesizer":
    """Whoever speaks by it is told on standard error what there is to know of the voice."""
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    voice = load_voice(options.model, options.device, options.draft, options.precision)
    if voice.notice:
        print(voice.notice, file=sys.stderr)
    return Synthesizer(voice)


def find_speaker(options: argparse.Namespace, synthesizer: "Synthesizer") -> "tuple[str, Reference | None]":
    """The name of a known voice, or the name of a recording and what was read from it."""
    if options.reference is None:
        name = options.voice or next(iter(synthesizer.voice.references))
        synthesizer.voice.reference(name)
        return name, None
    if options.voice is not None:
        raise InputError("voice", options.voice, "left out when --reference is given")
    hear = None if options.reference_text else partial(_hear, rate=synthesizer.voice.codec.sample_rate)
    reference = synthesizer.voice.reference_from_audio(options.reference, options.reference_text or "", hear)
    if hear is not None:
        print(f"heard in {options.reference.name}: {reference.text}", file=sys.stderr)
    return options.reference.stem, reference


def _hear(samples: "np.ndarray", rate: int) -> str:
    """What the shipped recogniser hears in `samples [N]`."""
    from pcg.asr.judges import load_judge
    from pcg.metrics.recording import JUDGE_RATE, for_judges

    return load_judge("embedded").transcribe([for_judges(samples, rate)], JUDGE_RATE)[0]


def use_threads(count: int | None) -> None:
    """Let torch have so many threads; None leaves it as many as it has."""
    import torch

    if count is not None:
        check_count("threads", count)
        torch.set_num_threads(count)


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, help="threads of torch (default: as many as there are cores)")


def check_count(field: str, value: int) -> None:
    if value < 1:
        raise InputError(field, value, "a whole number from 1 up")


def add_worker(parser: argparse.ArgumentParser) -> None:
    """Who does the units, and where their results are kept."""
    add_judge(parser, BOTH_JUDGES, SEVERAL_JUDGES)
    add_speaker_judge(parser)
    add_model(parser)
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help=f"where results are kept (default {RESULTS.as_posix()})"
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """How many of them work side by side."""
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--processes", type=int, default=1, help="workers side by side (default 1, for undisturbed times)")
    many.add_argument("--ray", type=int, metavar="N", help="N workers as Ray actors, here or on the cluster of RAY_ADDRESS")


def check_workers(options: argparse.Namespace) -> None:
    check_count("processes", options.processes)
    if options.ray is not None:
        check_count("ray", options.ray)


def worker_spec(options: argparse.Namespace) -> "WorkerSpec":
    from pcg.experiments.worker import WorkerSpec

    judge_names(options.judge)
    chosen = {"draft": options.draft, "speaker": options.speaker_judge, "precision": options.precision}
    return WorkerSpec(options.model, options.judge, options.device, **chosen)


def do_units(units: "Sequence[Unit]", spec: "WorkerSpec", options: argparse.Namespace) -> "list[Record]":
    """Do those of `units` that the results lack, say on standard error how far that is, and return the records of all."""
    from pcg.experiments import ray_runner, runner
    from pcg.experiments.store import Store

    store = Store(options.results)
    todo, total = runner.missing(units, spec, store), count_units(units, spec)
    run = ray_runner.run if options.ray else runner.run
    records = run(todo, spec, store, options.ray or options.processes)
    try:
        with closing(runner.with_progress(records, total, total - len(todo))) as steps:
            _watch(progress for _, progress in steps)
    except KeyboardInterrupt:
        stored = total - len(runner.missing(units, spec, store))
        print(f"{stored} of {total} units are stored; the same command goes on from there.", file=sys.stderr)
        raise
    return store.records(units, spec.voice_id)


def count_units(units: "Sequence[Unit]", spec: "WorkerSpec") -> int:
    """How many they are, where those of several grids that mean the same work are one."""
    return len({unit.key(spec.voice_id) for unit in units})


def mean_sizes(synthesizer: "Synthesizer") -> "MeanSize":
    """The mean group size over the voice's tokens, by similarity and theta."""
    return lambda similarity, theta: synthesizer.library.neighbours(similarity).mean_size_at(theta)


def _watch(steps: "Iterable[Pace]") -> None:
    """Rewrite one line of standard error at each step, and end it, whatever ends the steps."""
    begun = False
    try:
        for progress in steps:
            begun = True
            print(f"\r{_line(progress)}\x1b[K", end="", file=sys.stderr, flush=True)
    finally:
        if begun:
            print(file=sys.stderr)


def _line(progress: "Pace") -> str:
    said = f"{progress.done} of {progress.total} units"
    if progress.seconds_left is None:
        return said
    return f"{said}, {timedelta(seconds=round(progress.seconds_left))} left"
