"""pcg bench: the engine, its parts and many clients at once, timed and heard; JSON on the last line."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import add_draft, add_judge, add_precision, add_threads, check_count, load_synthesizer, use_threads
from pcg.errors import InputError
from pcg.settings import Settings

if TYPE_CHECKING:
    from pcg.cli.common import Commands


def add(commands: "Commands") -> None:
    parser = commands.add_parser(
        "bench", help="time the engine: its ceiling, transformers, its own bound; JSON on the last line"
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("engine", "rules", "groups", "judge", "shape", "codec", "spoof", "batching", "replicas", "gpu"),
        default="engine",
        help="gpu: all that only a machine with CUDA can say, tests included, into assets/bench/",
    )
    parser.add_argument(
        "--quick", action="store_true", help="will it pay here? costs by width, acceptances, the fastest method; 20 seconds"
    )
    parser.add_argument("file", nargs="?", type=Path, help="bench codec: a recording of someone who speaks")
    parser.add_argument(
        "--model",
        default="embedded",
        help="the voice; bench spoof: the one that the detectors know; bench codec: embedded, X-codec2 "
        "or NeuCodec, by folder or name",
    )
    parser.add_argument("--text", default="", help="bench codec: the words in the recording")
    parser.add_argument("--tokens", type=int, default=65_536, help="bench groups: tokens of the vocabulary (default 65536)")
    parser.add_argument("--dimensions", type=int, default=2048, help="bench groups: width of the embedding (default 2048)")
    parser.add_argument("--mean-size", type=float, default=140, help="bench groups: mean group size (default 140)")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="bench judge: the folder of the corpus (default runs/)")
    parser.add_argument(
        "--utterances",
        type=int,
        help="bench judge: of each held-out split (default 100); bench rules: how many are spoken (20)",
    )
    parser.add_argument("--recogniser", type=Path, metavar="FOLDER", help="bench judge: another one than the shipped")
    parser.add_argument("--detectors", type=Path, metavar="FOLDER", help="bench spoof: others than the shipped ones")
    parser.add_argument(
        "--shape",
        default="llasa-8b",
        help="bench shape: small, llasa-1b, llasa-3b, llasa-8b, or LAYERSxWIDTH of the embedded voice; random weights",
    )
    parser.add_argument(
        "--clients", type=int, default=16, help="bench batching, bench replicas: how many speak at once (default 16)"
    )
    parser.add_argument("--replicas", type=int, default=2, help="bench replicas: how many, against one (default 2)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    add_draft(parser)
    add_precision(parser)
    add_judge(parser)
    add_threads(parser)
    parser.add_argument("--repeats", type=int, default=7, help="runs in turns; medians are printed (default 7)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures there, too")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    from pcg.files import write_json

    check_count("repeats", options.repeats)
    use_threads(options.threads)
    benches = {
        "engine": _quick if options.quick else _engine,
        "rules": _rules,
        "groups": _groups,
        "judge": _judge,
        "shape": _shape,
        "codec": _codec,
        "spoof": _spoof,
        "batching": _batching,
        "replicas": _replicas,
        "gpu": _gpu,
    }
    figures = benches[options.what](options)
    if options.out:
        write_json(options.out, figures)
    print(json.dumps(figures))


def _engine(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.engine import bench_engine

    return bench_engine(load_synthesizer(options), Settings(), options.repeats, options.draft)


def _quick(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.pays import will_it_pay

    pays = will_it_pay(load_synthesizer(options), Settings())
    print(pays.table())
    print(pays.sentence)
    return pays.as_dict()


def _rules(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.parts.rules import bench_rules

    utterances = 20 if options.utterances is None else options.utterances
    check_count("utterances", utterances)
    return bench_rules(load_synthesizer(options), utterances)


def _groups(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.parts.groups import bench_groups

    return bench_groups(options.tokens, options.dimensions, options.mean_size, options.repeats).as_dict()


def _judge(options: argparse.Namespace) -> dict[str, object]:
    from pcg.asr.embedded import EMBEDDED, load_recogniser
    from pcg.bench.parts.judge import HeldOut, bench_judge
    from pcg.training.data.corpus import HELD_OUT, held_out

    utterances = 100 if options.utterances is None else options.utterances
    check_count("utterances", utterances)
    recogniser = load_recogniser(options.recogniser or EMBEDDED)
    spoken = {split: [HeldOut(*each) for each in held_out(options.work / "corpus", split, utterances)] for split in HELD_OUT}
    return bench_judge(recogniser, spoken, options.repeats)


def _shape(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.shapes import sweep

    return sweep(options.shape, options.device, options.repeats).as_dict()


def _codec(options: argparse.Namespace) -> dict[str, object]:
    from pcg.asr.judges import load_judge
    from pcg.bench.parts.codec import bench_codec, open_codec

    if options.file is None:
        raise InputError("file", options.file, "a recording: pcg bench codec --model MODEL FILE")
    judge = load_judge(options.judge, options.device)
    return bench_codec(open_codec(options.model, options.device), options.file, judge, options.text, options.repeats)


def _spoof(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.parts.spoof import bench_spoof
    from pcg.spoof.detectors import SHIPPED, load_detectors
    from pcg.spoof.garbage import Garbage
    from pcg.spoof.segments import Segments
    from pcg.synthesis.voice import load_voice

    folder, voice = options.detectors or SHIPPED, load_voice(options.model)
    garbage = Garbage(voice.usage, voice.code_embedding)
    return bench_spoof(load_detectors(folder), Segments.load(folder / "held_out.safetensors"), garbage)


def _batching(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.batching import bench_batching

    check_count("clients", options.clients)
    use_threads(options.threads or 1)
    synthesizer = load_synthesizer(options)
    return bench_batching(synthesizer, options.clients, options.repeats)


def _replicas(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.replicas import bench_replicas

    check_count("clients", options.clients)
    if options.replicas < 2:
        raise InputError("replicas", options.replicas, "a whole number from 2 up")
    voice = options.model, options.device, options.draft, options.precision
    return bench_replicas(voice, options.replicas, options.clients, options.repeats)


def _gpu(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.gpu import gpu_check

    return gpu_check()
