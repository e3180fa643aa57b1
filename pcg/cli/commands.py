"""Commands of the engine: speak, compare, export-voice, serve, groups, transcribe, normalise, bench."""

import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from pcg.cli.options import (
    JSON,
    JUDGES,
    METHOD,
    MODEL,
    SETTINGS,
    SPEAKER,
    THREADS,
    find_speaker,
    load_synthesizer,
    numbers,
    print_table,
    read_settings,
    use_threads,
    with_options,
)
from pcg.errors import InputError, counted
from pcg.settings import Settings, bounds

if TYPE_CHECKING:
    from pcg.take import Round, Sound, Take

THETAS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0)
SIMILARITY = {"similarity": SETTINGS["similarity"]}
BENCH = {"repeats": (int, 7, "runs in turns; medians are printed", 1), "out": (Path, None, "write the figures there, too")}
# Which step accepted a text, the cheapest first.
STAGES = ("ctc", "lm", "ar", "words")
REPLICAS = 2
VERIFY = {
    "verify": (int, None, "make so many takes at most, seed after seed; keep the one with the fewest word errors", 1),
    "judge": (str, "whisper", f"of --verify: {JUDGES}"),
}
SERVE = {
    "host": (str, "127.0.0.1", "address to listen on"),
    "port": (int, 8000, "port to listen on; 0: a free one", 0, 65_535),
    "api_key": (str, None, "the key that clients send [default: PCG_API_KEY, or none]"),
    "allow_host": (list[str], [], "a name that the server answers to; may be repeated"),
    "cors_origin": (list[str], [], "the origin of a page that may ask from a browser, or *; may be repeated"),
    "exact_only": (bool, False, "refuse methods that change the target's distribution"),
    "strict": (bool, False, "refuse unknown fields of requests"),
    "voices": (Path, None, "the folder of voices that clients may record"),
    "in_flight": (int, None, "requests of one address at once [default: twice a batch]", 1),
    "ray": (bool, False, "with replicas, here or on the cluster of RAY_ADDRESS"),
    "replicas": (int, None, f"of --ray, each on a core or a GPU [default: {REPLICAS}]", 1),
}
TRANSCRIBE = {
    "mode": (str, "accurate", "ar, accurate, fast, or words (listed words: slower, fewest errors)"),
    "tau_ctc": (float, None, "entropy in nats below which a CTC frame is certain", 0, 10),
    "tau_slm": (float, None, "likelihood above which the language model accepts a token", 0, 1),
    "recogniser": (Path, None, "the folder of another recogniser than the shipped one"),
}


def add(app: typer.Typer) -> None:
    for command in (speak, compare, export_voice, serve, groups, transcribe, normalise):
        app.command()(command)
    benches = typer.Typer(help="Time the engine; JSON on the last line.", rich_markup_mode=None)
    benches.callback(invoke_without_command=True)(bench)
    for command in (quick, shape, batching, codec, gpu):
        benches.command()(command)
    app.add_typer(benches, name="bench")


@with_options(METHOD, SETTINGS, SPEAKER, MODEL, VERIFY, JSON)
def speak(
    text: str,
    options: SimpleNamespace,
    out: Annotated[Path, typer.Option(help="FILE.wav; - streams raw 16-bit PCM")] = Path("speech.wav"),
) -> None:
    """Say a text with one decoder."""
    from pcg.audio import write_wav
    from pcg.saved_take import Origin, Stored
    from pcg.take import Sound, accepted_in_words, last_take
    from pcg.text.reading import check_text, unread

    settings = read_settings(options)
    check_text(text)
    if letters := unread(text):
        print(f"pcg: left out, as only English letters are read: {letters[:40]}", file=sys.stderr)
    synthesizer = load_synthesizer(options)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()  # the kernel is compiled or loaded on first use
    told: dict[str, object] = {"out": str(out)}
    if options.verify:
        take, told["verified"] = _verified(lambda each: synthesizer.take(text, each, voice, reference), settings, options)
        steps = iter((Sound(take.audio, take.sample_rate), take))
    else:
        steps = synthesizer.speak(text, settings, voice, reference, stream=str(out) == "-")
    if str(out) == "-":
        take = _pour(steps)
    else:
        take = last_take(steps)
        stored = Stored.of(take, Origin.of(synthesizer.voice), reference)
        write_wav(out, take.audio, take.sample_rate, stored.to_json())
    # Where standard output takes the sound, words go to standard error.
    place = sys.stderr if str(out) == "-" else sys.stdout
    accepted = accepted_in_words(take.acceptance_rate, take.acceptance_of_tested, take.acceptance_by_position)
    times = f"{take.audio_seconds:.2f} s of audio in {take.wall_seconds:.2f} s"
    print(f"{out}: {times}, {take.tokens_per_second:.0f} tokens/s" + (f"; {accepted}" if accepted else ""), file=place)
    if options.json:
        print(json.dumps(take.summary() | told), file=place)


def _verified(say: "Callable[[Settings], Take]", settings: Settings, options: SimpleNamespace) -> "tuple[Take, dict]":
    """Return the take of up to `options.verify` that the judge understands best, and what it cost."""
    from pcg.asr.judges import best_take, load_judge

    judge = load_judge(options.judge, options.device)
    seeds = [(settings.seed + number) % 2**32 for number in range(options.verify)]
    take, trials = best_take(lambda seed: say(settings.with_(seed=seed)), judge, seeds)
    for trial in trials:
        print(f"seed {trial.seed}: {counted(trial.errors, 'word error')}, heard: {trial.heard or 'no words'}", file=sys.stderr)
    seconds = round(sum(trial.seconds for trial in trials), 3)
    print(f"kept seed {take.settings.seed} of {counted(len(trials), 'take')} in {seconds:.1f} s", file=sys.stderr)
    return take, {"judge": judge.name, "seconds": seconds, "takes": [asdict(trial) for trial in trials]}


@with_options({name: SPEAKER[name] for name in ("reference_text",)}, MODEL)
def export_voice(recording: Path, out: Path, options: SimpleNamespace) -> None:
    """Write the voice of a recording as OUT.safetensors, for --reference and for the folder of `serve --voices`."""
    if out.suffix != ".safetensors":
        raise InputError("out", str(out), "a name that ends in .safetensors")
    options.reference, options.voice = recording, None
    synthesizer = load_synthesizer(options)
    _, reference = find_speaker(options, synthesizer)
    synthesizer.voice.write_reference(out, reference)
    print(f"{out}: {counted(len(reference.codes), 'code')} of {recording.name}")


def normalise(text: str) -> None:
    """Show the words and the phonemes that the embedded voice speaks for a text."""
    from pcg.text.reading import check_text, phonemise, unread
    from pcg.text.reading import normalise as rewritten

    words = rewritten(check_text(text))
    print(f"words     {words}")
    print(f"phonemes  {''.join(phonemise(words))}")
    if letters := unread(text):
        print(f"left out  {letters}")


def _pour(steps: "Iterator[Round | Sound | Take]") -> "Take":
    """Write sound to standard output as it comes; return the take."""
    from pcg.audio import as_int16
    from pcg.take import Sound, Take

    for step in steps:
        if isinstance(step, Sound):
            sys.stdout.buffer.write(as_int16(step.samples).tobytes())
            sys.stdout.buffer.flush()
    assert isinstance(step, Take)
    return step


@with_options(SETTINGS, SPEAKER, MODEL, THREADS, JSON)
def compare(
    text: str,
    options: SimpleNamespace,
    repeat: Annotated[int, typer.Option(help="in turns; the median by speed is shown", min=1)] = 5,
) -> None:
    """Say a text with the four decoders and one seed, and time them."""
    import torch

    from pcg.bench.engine import compare_methods
    from pcg.take import accepted_in_columns
    from pcg.text.reading import check_text

    settings, text = read_settings(options), check_text(text)
    use_threads(options.threads)
    synthesizer = load_synthesizer(options)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()
    rows = compare_methods(synthesizer, text, settings, voice, repeat, reference)
    print_table(
        [
            {
                "method": method,
                "tokens/s": f"{row['tokens_per_second']:.1f}",
                "speed-up": f"{row['speedup']:.2f}x",
                "bound": "-" if row["bound"] is None else f"{row['bound']:.2f}x",
                **accepted_in_columns(row["acceptance_rate"], row["acceptance_of_tested"], row["acceptance_by_position"]),
                "length": f"{row['mean_acceptance_length']:.2f}",
                "RTF": "-" if row["rtf"] is None else f"{row['rtf']:.3f}",
                "audio s": f"{row['audio_seconds']:.2f}",
            }
            for method, row in rows.items()
        ]
    )
    if options.json:
        asked = {"text": text, "seed": settings.seed, "repeat": repeat, "threads": torch.get_num_threads()}
        print(json.dumps(asked | {"takes": rows}))


@with_options(SERVE, MODEL)
def serve(options: SimpleNamespace) -> None:
    """Answer OpenAI's speech endpoint over HTTP."""
    import uvicorn

    from pcg.models.hub import model_name
    from pcg.serving.openai import create_api
    from pcg.serving.protection import LIMITS
    from pcg.serving.replicas import Replicas
    from pcg.serving.speech_service import SpeechService

    if options.replicas is not None and not options.ray:
        raise InputError("replicas", options.replicas, "left out without --ray")
    if options.voices is not None and options.ray:
        raise InputError("voices", str(options.voices), "left out with --ray")

    def service(door: socket.socket) -> Replicas | SpeechService:
        if options.ray:
            address, bound = door.getsockname()[:2]
            name = f"pcg-{socket.gethostname()}-{address.replace(':', '.')}-{bound}"
            voice = options.model, options.device, options.draft, options.precision
            return Replicas(options.replicas or REPLICAS, *voice, name, options.exact_only)
        synthesizer = load_synthesizer(options)
        synthesizer.longest_seconds = LIMITS.job_seconds
        synthesizer.warm_up()
        return SpeechService(synthesizer)

    key, name = options.api_key or os.environ.get("PCG_API_KEY") or None, model_name(Path(options.model))
    with closing(_listen(options.host, options.port)) as door, closing(service(door)) as speech:
        api = create_api(
            speech,
            name,
            key,
            tuple(options.allow_host),
            in_flight=options.in_flight,
            alias=options.model,
            origins=tuple(options.cors_origin),
            strict=options.strict,
            voices=options.voices,
        )
        config = uvicorn.Config(api, log_level="warning", timeout_graceful_shutdown=LIMITS.stop_seconds)
        if options.ray and speech.offer.notice:
            print(speech.offer.notice, file=sys.stderr)
        print(f"Serving {options.model} on http://{options.host}:{door.getsockname()[1]}/v1", file=sys.stderr)
        uvicorn.Server(config).run(sockets=[door])


def _listen(host: str, port: int) -> socket.socket:
    """Open the socket before the model is loaded: a taken port costs nothing, and early requests are queued."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InputError("port", port, f"one that is free on {host} and that you may open") from error
        raise InputError("host", host, "an address of this computer") from error


@with_options(SIMILARITY, JSON)
def groups(
    options: SimpleNamespace,
    theta: Annotated[str | None, typer.Option(help="thresholds with commas between")] = None,
    mean_size: Annotated[str | None, typer.Option(help="mean sizes with commas between, in place of thresholds")] = None,
    export: Annotated[Path | None, typer.Option(help="write groups and map into this folder (safetensors, parquet)")] = None,
    model: Annotated[str, typer.Option(help=MODEL["model"][2])] = "embedded",
) -> None:
    """Print statistics of the Acoustic Similarity Groups at some thetas."""
    from pcg.groups.atlas import export_atlas, export_groups
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    similarity = Settings(similarity=options.similarity or Settings().similarity).similarity
    if theta is not None and mean_size is not None:
        raise InputError("theta and mean-size", "both", "one of the two")
    thetas = numbers("theta", theta) if theta else []
    for each in thetas:
        bounds("theta").check("theta", each)
    sizes = numbers("mean-size", mean_size) if mean_size else []
    synthesizer = Synthesizer(load_voice(model), show_progress=True)
    neighbours = synthesizer.library.neighbours(similarity)
    thetas = thetas or [neighbours.theta_for(size) for size in sizes] or [each for each in THETAS if each >= neighbours.floor]
    rows = []
    for each in thetas:
        begun = perf_counter()
        statistics = asdict(synthesizer.statistics(each, similarity))
        rows.append({"theta": each, **statistics, "seconds": round(perf_counter() - begun, 4)})
    print_table([{name: str(round(value, 4)) for name, value in row.items()} for row in rows])
    if export:
        if len(thetas) != 1:
            raise InputError("theta", f"{len(thetas)} values", "one value where groups are exported")
        files = export_groups(synthesizer.groups(thetas[0], similarity), export, similarity, synthesizer.voice.name)
        files.append(export_atlas(synthesizer.atlas(), export / "map.parquet", synthesizer.voice.name))
        print(*files, sep="\n")
    if options.json:
        print(json.dumps({"model": model, "similarity": similarity, "thetas": rows}))


@with_options(TRANSCRIBE, JSON)
def transcribe(file: list[Path], options: SimpleNamespace) -> None:
    """Write down what recordings say, by self-speculative decoding."""
    from pcg.asr.embedded import EMBEDDED, load_recogniser
    from pcg.asr.judges import way_of
    from pcg.asr.listening import listen_to_file
    from pcg.asr.self_speculative import Thresholds

    way, given = way_of(options.mode), {"ctc": options.tau_ctc, "lm": options.tau_slm}
    given = {name: value for name, value in given.items() if value is not None}
    if given and not isinstance(way, Thresholds):
        raise InputError("mode", options.mode, "ar, accurate or fast, where there are thresholds")
    way = replace(way, **given) if given else way
    for each in file:
        if not each.is_file():
            raise InputError("audio file", str(each), "a file that is there")
    loaded, rows = load_recogniser(options.recogniser or EMBEDDED), []
    for each in file:
        begun = perf_counter()
        heard = listen_to_file(loaded, each, way)
        rtfx = heard.seconds / (perf_counter() - begun)
        parts = [
            {"start": round(start, 3), "text": part.text, "stage": part.stage, "accepted": part.accepted_text}
            for start, part in zip(heard.starts, heard.parts, strict=True)
        ]
        stage = max((part.stage for part in heard.parts), key=STAGES.index, default="ctc")
        row = {"file": str(each), "text": heard.text, "stage": stage, "rtfx": round(rtfx, 2), "judge": loaded.name}
        rows.append({**row, "parts": parts})
        print(f"{each}: {heard.text or 'no words were understood'}")
    if options.json:
        print(json.dumps(rows[0] if len(rows) == 1 else rows))


def _print(figures: dict[str, object], out: Path | None) -> None:
    from pcg.files import write_json

    if out:
        write_json(out, figures)
    print(json.dumps(figures))


@with_options(MODEL, THREADS, BENCH)
def bench(context: typer.Context, options: SimpleNamespace) -> None:
    """Time the engine against its ceiling, transformers and its own bound."""
    if context.invoked_subcommand:
        return
    use_threads(options.threads)
    from pcg.bench.engine import bench_engine

    _print(bench_engine(load_synthesizer(options), Settings(), options.repeats, options.draft), options.out)


@with_options(MODEL, THREADS)
def quick(options: SimpleNamespace) -> None:
    """Answer in 20 seconds whether drafting pays on this computer, and with which lookahead."""
    from pcg.synthesis.costs import will_it_pay

    use_threads(options.threads)
    verdict = will_it_pay(load_synthesizer(options), Settings())
    print(verdict.table())
    print(verdict.sentence)
    print(json.dumps(verdict.as_dict()))


@with_options(BENCH, THREADS)
def shape(
    options: SimpleNamespace,
    shape: Annotated[str, typer.Option(help="small, llasa-1b, llasa-3b or llasa-8b")] = "llasa-8b",
    device: str = "cpu",
) -> None:
    """Time random weights of a shape, with forced length and acceptance."""
    from pcg.bench.shapes import sweep

    use_threads(options.threads)
    _print(sweep(shape, device, options.repeats), options.out)


@with_options(MODEL, THREADS, BENCH)
def batching(
    options: SimpleNamespace, clients: Annotated[int, typer.Option(help="how many speak at once", min=1)] = 16
) -> None:
    """Time clients at once against one by one."""
    from pcg.bench.batching import bench_batching

    use_threads(options.threads or 1)
    _print(bench_batching(load_synthesizer(options), clients, options.repeats), options.out)


@with_options(BENCH)
def codec(
    options: SimpleNamespace,
    file: Annotated[Path, typer.Argument(help="a recording of someone who speaks")],
    text: Annotated[str, typer.Option(help="the words in the recording")] = "",
    model: Annotated[str, typer.Option(help="embedded, X-codec2 or NeuCodec, by folder or name")] = "embedded",
    judge: Annotated[str, typer.Option(help=JUDGES)] = "whisper",
    device: str = "cpu",
) -> None:
    """Check a codec on a recording."""
    from pcg.asr.judges import load_judge
    from pcg.bench.codec import bench_codec
    from pcg.synthesis.voice import open_codec

    opened, heard_by = open_codec(model, device), load_judge(judge, device)
    _print(bench_codec(opened, file, heard_by, text, options.repeats), options.out)


def gpu() -> None:
    """Measure what only a GPU can tell, in four minutes: exactness, costs of rounds, batches."""
    from pcg.bench.gpu import gpu_check

    print(json.dumps(gpu_check()))
