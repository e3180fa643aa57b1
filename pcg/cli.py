"""The command line: speak, compare, groups, bench, evaluate, train. Bad input is one sentence on stderr and exit code 2."""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from pcg.errors import InputError, PCGError
from pcg.settings import METHODS, RANGES, SIMILARITIES, WHOLE, Settings

if TYPE_CHECKING:
    import numpy as np

    from pcg.groups.search import Progress
    from pcg.prompt import Reference
    from pcg.recognition.self_speculative import Thresholds
    from pcg.synthesizer import Synthesizer
    from pcg.take import Round, Sound, Take

# Who accepted a text, the cheapest first.
STAGES = ("ctc", "lm", "ar")
DEFAULT_THETAS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # Bars and notices of the libraries below would stand between a user and the one line that matters.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    warnings.simplefilter("ignore", FutureWarning)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except PCGError as error:
        print(f"pcg: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pcg: stopped.", file=sys.stderr)
        return 130
    return 0


def _speak(options: argparse.Namespace) -> None:
    from pcg.audio import write_wav
    from pcg.text import check_text

    settings = _settings(options)
    check_text(options.text)
    synthesizer = _synthesizer(options.model, options.device)
    voice, reference = _speaker(options, synthesizer)
    synthesizer.warm_up()  # the kernel is compiled or loaded on first use, which is no take's cost
    if str(options.out) == "-":
        take = _pour(synthesizer.speak(options.text, settings, voice, reference, stream=True))
    else:
        take = synthesizer.take(options.text, settings, voice, reference)
        write_wav(options.out, take.audio, take.sample_rate)
    # Where the sound itself goes to standard output, the words about it must not.
    said = sys.stderr if str(options.out) == "-" else sys.stdout
    summary = take.summary() | {"out": str(options.out)}
    rate = "" if take.acceptance_rate is None else f", {take.acceptance_rate:.0%} of drafted tokens accepted"
    times = f"{take.audio_seconds:.2f} s of audio in {take.wall_seconds:.2f} s"
    print(f"{options.out}: {times}, {take.tokens_per_second:.0f} tokens/s{rate}", file=said)
    if options.json:
        print(json.dumps(summary), file=said)


def _pour(steps: "Iterator[Round | Sound | Take]") -> "Take":
    """Write sound to standard output as it comes, as 16-bit PCM without a header; return the take."""
    from pcg.take import Sound, Take

    for step in steps:
        if isinstance(step, Sound):
            sys.stdout.buffer.write((step.samples * 32767).astype("<i2").tobytes())
            sys.stdout.buffer.flush()
    assert isinstance(step, Take)
    return step


def _compare(options: argparse.Namespace) -> None:
    from pcg.audio import write_wav
    from pcg.bench.methods import step_costs
    from pcg.text import check_text

    settings = _settings(options)
    check_text(options.text)
    if options.repeat < 1:
        raise InputError("repeat", options.repeat, "a whole number from 1 up")
    synthesizer = _synthesizer(options.model, options.device)
    voice, reference = _speaker(options, synthesizer)
    synthesizer.warm_up()
    prompt = synthesizer.voice.reader.prompt(
        synthesizer.chunks(options.text)[0], reference or synthesizer.voice.reference(voice)
    )
    steps = step_costs(synthesizer.voice, prompt, settings.lookahead, settings.temperature)
    rows: dict[str, dict[str, object]] = {}
    print(f"{'method':8}{'tokens/s':>10}{'speed-up':>10}{'bound':>8}{'accepted':>10}{'length':>8}{'RTF':>8}{'audio s':>9}")
    for method in METHODS:
        takes = [synthesizer.take(options.text, settings.with_(method=method), voice, reference) for _ in range(options.repeat)]
        take = sorted(takes, key=lambda t: t.wall_seconds)[len(takes) // 2]
        rows[method] = take.summary()
        speedup = take.tokens_per_second / float(str(rows["ar"]["tokens_per_second"]))
        length, drafting = take.mean_acceptance_length, take.acceptance_rate is not None
        bound = steps.bound(length, settings.lookahead) if drafting else None
        rows[method] |= {"speedup": round(speedup, 3), "bound": None if bound is None else round(bound, 3)}
        accepted, best = (f"{take.acceptance_rate:.1%}", f"{bound:.2f}x") if drafting else ("-", "-")
        print(
            f"{method:8}{take.tokens_per_second:10.1f}{speedup:9.2f}x{best:>8}{accepted:>10}{length:8.2f}"
            f"{take.rtf:8.3f}{take.audio_seconds:9.2f}"
        )
        if options.out:
            write_wav(options.out / f"{method}.wav", take.audio, take.sample_rate)
    if options.json:
        print(json.dumps({"text": options.text, "seed": settings.seed, "takes": rows}))


def _groups(options: argparse.Namespace) -> None:
    from pcg.groups.progress import printed
    from pcg.groups.similarities import theta_for

    Settings(similarity=options.similarity)
    for theta in options.theta or ():
        RANGES["theta"].check("theta", theta)
    synthesizer = _synthesizer(options.model, options.device, printed if sys.stderr.isatty() else None)
    neighbours = synthesizer.library.neighbours(options.similarity)
    thetas = [theta_for(neighbours, size) for size in options.mean_size] if options.mean_size else options.theta
    thetas = thetas or [theta for theta in DEFAULT_THETAS if theta >= neighbours.floor]
    rows = []
    print(f"{'theta':>6}{'vocab':>8}{'groups':>8}{'mean':>8}{'by use':>8}{'max':>6}{'alone':>8}{'shared':>8}{'ms':>8}")
    for theta in thetas:
        begun = perf_counter()
        figures = synthesizer.statistics(theta, options.similarity)
        seconds = perf_counter() - begun
        rows.append({"theta": theta, **asdict(figures), "seconds": round(seconds, 4)})
        print(
            f"{theta:6.3f}{figures.vocab:8}{figures.groups:8}{figures.mean_size:8.2f}{figures.usage_weighted_mean_size:8.2f}"
            f"{figures.max_size:6}{figures.singletons:8}{figures.multi_member_share:8.1%}{1e3 * seconds:8.1f}"
        )
    if options.export:
        _export(synthesizer, thetas, options)
    if options.json:
        print(json.dumps({"model": options.model, "similarity": options.similarity, "thetas": rows}))


def _export(synthesizer: "Synthesizer", thetas: Sequence[float], options: argparse.Namespace) -> None:
    """Write the groups at the one theta that was asked for, and the map."""
    from pcg.groups.export import export_atlas, export_groups

    if len(thetas) != 1:
        raise InputError("theta", f"{len(thetas)} values", "one value where groups are exported")
    name, similarity = synthesizer.voice.name, options.similarity
    files = export_groups(synthesizer.groups(thetas[0], similarity), options.export, similarity, name)
    files.append(export_atlas(synthesizer.atlas(), options.export / "map.parquet", name))
    for file in files:
        print(file)


def _bench(options: argparse.Namespace) -> None:
    import torch

    from pcg.files import write_json

    if options.repeats < 1:
        raise InputError("repeats", options.repeats, "a whole number from 1 up")
    if options.threads is not None:
        if options.threads < 1:
            raise InputError("threads", options.threads, "a whole number from 1 up")
        torch.set_num_threads(options.threads)
    if options.what == "judge":
        from pcg.bench.judge import bench_judge
        from pcg.recognition.embedded import EMBEDDED, load_recogniser

        if options.utterances < 1:
            raise InputError("utterances", options.utterances, "a whole number from 1 up")
        recogniser = load_recogniser(options.recogniser or EMBEDDED)
        figures = bench_judge(recogniser, options.work / "corpus", options.utterances, options.repeats)
    elif options.what == "groups":
        from pcg.bench.groups import bench_groups

        figures = bench_groups(options.tokens, options.dimensions, options.mean_size, options.repeats).as_dict()
    elif options.what == "engine":
        from pcg.bench.engine import bench_engine

        figures = bench_engine(_synthesizer("embedded", options.device), Settings(), options.repeats)
    else:
        from pcg.bench.shapes import SHAPES, sweep

        if options.shape not in SHAPES:
            raise InputError("shape", options.shape, "one of " + ", ".join(SHAPES))
        figures = sweep(options.shape, options.device, options.repeats).as_dict()
    if options.out:
        write_json(options.out, figures)
    print(json.dumps(figures))


def _transcribe(options: argparse.Namespace) -> None:
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


def _evaluate(options: argparse.Namespace) -> None:
    from pcg.evaluation import evaluate, stopping, voice_matrix
    from pcg.metrics.memory import Memory, RememberedJudge
    from pcg.metrics.sentences import read_sentences
    from pcg.recognition.judges import load_judge

    settings = _settings(options)
    written = read_sentences(*options.section)
    if options.sentences < 1:
        raise InputError("sentences", options.sentences, "a whole number from 1 up")
    sentences = written[:: max(1, len(written) // options.sentences)][: options.sentences]
    synthesizer = _synthesizer(options.model, options.device)
    name, _ = _speaker(options, synthesizer)
    figures: dict[str, dict[str, object]] = {}
    if "table" in options.figure:
        judge = RememberedJudge(load_judge(options.judge, options.device), Memory())
        report = evaluate(synthesizer, sentences, options.method, name, settings, judge, _original(name), _progress)
        figures["table"] = report.as_dict()
        print(report.table())
    if "stopping" in options.figure:
        texts = (read_sentences() * 2)[: options.stopping]
        endings = stopping(synthesizer, texts, settings, name)
        figures["stopping"] = endings.as_dict()
        limit, short = endings.hit_limit.value, endings.cut_short.value
        print(f"of {endings.n} takes {limit:.1%} hit the length limit and {short:.1%} stopped short")
    if "voices" in options.figure:
        matrix = voice_matrix(synthesizer, sentences[:8], settings)
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
    from pcg.training.corpus import speak

    return lambda text: speak(voice, text)


def _progress(done: int, total: int) -> None:
    print(f"\r{done}/{total}", end="" if done < total else "\n", file=sys.stderr, flush=True)


def _train(options: argparse.Namespace) -> None:
    if options.stage == "recogniser":
        from pcg.training.judge_recipe import train_recogniser

        out = options.out or Path("assets/recogniser")
        train_recogniser(options.work, out, options.device, options.seed, options.processes)
        return
    from pcg.training.recipe import train

    out = options.out or Path("assets/voice")
    train(options.stage, options.work, options.prose, out, options.device, options.seed, options.processes)


def _settings(options: argparse.Namespace) -> Settings:
    names = [
        n for n in ("method", "adaptive", "similarity", *RANGES) if isinstance(getattr(options, n, None), str | int | float)
    ]
    values = {name: getattr(options, name) for name in names}
    return Settings.from_dict(values)


def _synthesizer(model: str, device: str, announce: "Callable[[str], Progress] | None" = None) -> "Synthesizer":
    from pcg.synthesizer import Synthesizer
    from pcg.voice import load_voice

    return Synthesizer(load_voice(model, device), announce=announce)


def _speaker(options: argparse.Namespace, synthesizer: "Synthesizer") -> tuple[str, "Reference | None"]:
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


class _Parser(argparse.ArgumentParser):
    """argparse, with its complaints as one sentence in place of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"pcg: {message.rstrip('.')}.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pcg", description="Speculative decoding for speech tokens: AR, SD, SSD and PCG.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    speak = commands.add_parser("speak", help="say a text with one decoder")
    speak.add_argument("text")
    speak.add_argument("--method", help="ar, sd, ssd or pcg (the default)")
    speak.add_argument("--out", type=Path, default=Path("speech.wav"), metavar="FILE.wav", help="- streams raw 16-bit PCM")
    _add_settings(speak)
    speak.set_defaults(command=_speak)

    compare = commands.add_parser("compare", help="say a text with the four decoders, same seed, and time them")
    compare.add_argument("text")
    compare.add_argument("--repeat", type=int, default=3, help="takes a method; the median by time is shown (default 3)")
    compare.add_argument("--out", type=Path, metavar="FOLDER", help="write ar.wav, sd.wav, ssd.wav and pcg.wav there")
    _add_settings(compare)
    compare.set_defaults(command=_compare)

    groups = commands.add_parser("groups", help="statistics of the Acoustic Similarity Groups at some thetas")
    wanted = groups.add_mutually_exclusive_group()
    wanted.add_argument("--theta", type=float, nargs="+", help="thresholds to show")
    wanted.add_argument("--mean-size", type=float, nargs="+", help="show the thetas that give groups of these mean sizes")
    groups.add_argument("--similarity", default=Settings().similarity, help="one of " + ", ".join(SIMILARITIES))
    groups.add_argument("--export", type=Path, metavar="FOLDER", help="write groups and map there (safetensors, parquet)")
    groups.add_argument("--model", default="embedded")
    groups.set_defaults(device="cpu")
    groups.add_argument("--json", action="store_true")
    groups.set_defaults(command=_groups)

    bench = commands.add_parser(
        "bench", help="time the engine: its ceiling, transformers, its own bound; JSON on the last line"
    )
    bench.add_argument("what", nargs="?", choices=("engine", "groups", "judge", "shape"), default="engine")
    bench.add_argument("--tokens", type=int, default=65_536, help="bench groups: tokens of the vocabulary (default 65536)")
    bench.add_argument("--dimensions", type=int, default=2048, help="bench groups: width of the embedding (default 2048)")
    bench.add_argument("--mean-size", type=float, default=140, help="bench groups: mean group size (default 140)")
    bench.add_argument("--work", type=Path, default=Path("runs"), help="bench judge: the folder of the corpus (default runs/)")
    bench.add_argument("--utterances", type=int, default=100, help="bench judge: of each held-out split (default 100)")
    bench.add_argument("--recogniser", type=Path, metavar="FOLDER", help="bench judge: another one than the shipped")
    bench.add_argument("--shape", default="llasa-8b", help="bench shape: small, llasa-1b, llasa-3b or llasa-8b, random weights")
    bench.add_argument("--device", default="cpu", help="cpu or cuda")
    bench.add_argument("--threads", type=int, help="threads of torch (default: as many as there are cores)")
    bench.add_argument("--repeats", type=int, default=7, help="runs in turns; medians are printed (default 7)")
    bench.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures there, too")
    bench.set_defaults(command=_bench)

    transcribe = commands.add_parser("transcribe", help="write down what recordings say, by self-speculative decoding")
    transcribe.add_argument("file", type=Path, nargs="+")
    transcribe.add_argument("--mode", default="accurate", help="ar, accurate (the default) or fast")
    transcribe.add_argument("--tau-ctc", type=float, help="entropy in nats below which a CTC frame is certain")
    transcribe.add_argument("--tau-slm", type=float, help="likelihood above which the language model accepts a token")
    transcribe.add_argument("--recogniser", type=Path, metavar="FOLDER", help="another recogniser than the shipped")
    transcribe.add_argument("--json", action="store_true")
    transcribe.set_defaults(command=_transcribe)

    evaluate = commands.add_parser("evaluate", help="WER, DNSMOS, speaker, speed, endings: the figures of a voice")
    evaluate.add_argument("figure", nargs="*", default=["table"], help="table (the default), stopping, voices")
    evaluate.add_argument("--method", nargs="+", default=list(METHODS), metavar="METHOD")
    evaluate.add_argument(
        "--judge",
        default="pocketsphinx",
        help="who writes down the words: pocketsphinx (the default), embedded, or, from the hub, hubert, whisper, granite",
    )
    evaluate.add_argument("--section", nargs="+", default=["everyday", "balanced"], metavar="SECTION")
    evaluate.add_argument("--sentences", type=int, default=100, help="at most so many, spread over the sections (default 100)")
    evaluate.add_argument("--stopping", type=int, default=200, help="takes for the stopping figure (default 200)")
    _add_settings(evaluate)
    evaluate.set_defaults(command=_evaluate)

    train = commands.add_parser(
        "train", help="train the embedded voice, or its recogniser, from nothing; resumes where it stopped"
    )
    train.add_argument("stage", choices=("corpus", "codec", "target", "draft", "publish", "all", "unpack", "recogniser"))
    train.add_argument("--work", type=Path, default=Path("runs"), help="corpus and checkpoints (default runs/)")
    train.add_argument("--prose", type=Path, help="a text file of English prose, one sentence a line (stage corpus)")
    train.add_argument("--out", type=Path, help="where publish writes (and unpack reads): assets/voice, or assets/recogniser")
    train.add_argument("--device", default="cpu", help="cpu or cuda")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--processes", type=int, default=2, help="synthesizers side by side (stage corpus)")
    train.set_defaults(command=_train)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for name, allowed in RANGES.items():
        kind = int if name in WHOLE else float
        text = f"{allowed}" + (f" {allowed.unit}" if allowed.unit else "")
        parser.add_argument(f"--{name}", type=kind, help=f"{text} (default {getattr(Settings(), name)})")
    parser.add_argument("--similarity", help="what makes tokens alike: " + ", ".join(SIMILARITIES) + " (default cosine)")
    parser.add_argument("--adaptive", action="store_true", help="draft fewer tokens where the draft is unsure")
    parser.add_argument("--voice", help="a voice that the model knows")
    parser.add_argument("--reference", type=Path, metavar="WAV", help="a recording of 1 to 10 seconds, in place of --voice")
    parser.add_argument("--reference-text", metavar="T", help="the words in --reference")
    parser.add_argument("--model", default="embedded", help="'embedded' or a folder that holds voice.json")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: bfloat16 and CUDA graphs (default cpu)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
