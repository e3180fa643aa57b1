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
        choices=("engine", "shape", "codec", "batching", "gpu"),
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
        help="the voice; bench codec: embedded, X-codec2 or NeuCodec, by folder or name",
    )
    parser.add_argument("--text", default="", help="bench codec: the words in the recording")
    parser.add_argument(
        "--shape",
        default="llasa-8b",
        help="bench shape: small, llasa-1b, llasa-3b, llasa-8b, or LAYERSxWIDTH of the embedded voice; random weights",
    )
    parser.add_argument("--clients", type=int, default=16, help="bench batching: how many speak at once (default 16)")
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
        "shape": _shape,
        "codec": _codec,
        "batching": _batching,
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
    from pcg.synthesis.costs import will_it_pay

    pays = will_it_pay(load_synthesizer(options), Settings())
    print(pays.table())
    print(pays.sentence)
    return pays.as_dict()


def _shape(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.shapes import sweep

    return sweep(options.shape, options.device, options.repeats).as_dict()


def _codec(options: argparse.Namespace) -> dict[str, object]:
    from pcg.asr.judges import load_judge
    from pcg.bench.codec import bench_codec, open_codec

    if options.file is None:
        raise InputError("file", options.file, "a recording: pcg bench codec --model MODEL FILE")
    judge = load_judge(options.judge, options.device)
    return bench_codec(open_codec(options.model, options.device), options.file, judge, options.text, options.repeats)


def _batching(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.batching import bench_batching

    check_count("clients", options.clients)
    use_threads(options.threads or 1)
    synthesizer = load_synthesizer(options)
    return bench_batching(synthesizer, options.clients, options.repeats)


def _gpu(options: argparse.Namespace) -> dict[str, object]:
    from pcg.bench.gpu import gpu_check

    return gpu_check()
