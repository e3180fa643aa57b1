"""Commands of the engine: speak, compare, export-voice, serve, groups, transcribe, normalise, bench, train."""

import errno
import json
import os
import socket
import sys
from contextlib import closing
from dataclasses import asdict
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
    SIMILARITY,
    SPEAKER,
    THREADS,
    find_speaker,
    load_synthesizer,
    print_table,
    read_settings,
    read_thetas,
    with_options,
)
from pcg.errors import InputError, counted
from pcg.settings import Settings

if TYPE_CHECKING:
    from pcg.serving.replicas import Replicas
    from pcg.serving.speech_service import SpeechService

THETAS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0)
BENCH = {"repeats": (int, 7, "runs in turns; medians are printed", 1)}
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
TRAIN_STAGES = ("corpus", "codec", "target", "draft", "publish", "all", "unpack", "recogniser", "tokens", "detectors")
TRAIN = {
    "work": (Path, Path("runs"), "corpus and checkpoints"),
    "prose": (Path, None, "a text file of English prose, one sentence a line (stage corpus)"),
    "out": (Path, None, "where the result goes [default: assets/voice, assets/recogniser or assets/detectors, by stage]"),
    "recipe": (Path, None, "FILE.yaml with the choices that differ from the defaults"),
    "minutes": (float, None, "of the voice's training in all, each stage its share, in place of the recipe's steps"),
    "device": (str, "cpu", "cpu or cuda"),
    "seed": (int, 0, "", 0),
    "processes": (int, 2, "synthesizers side by side (stage corpus)", 1),
}
TRAIN_TOKENS = {
    "speech": (Path, None, "recordings with transcripts: LibriTTS's layout, or name.wav and name.txt (stage tokens)"),
    "codec": (str, "embedded", "'embedded' or the folder of a codec (stage tokens)"),
}
TRAIN_DRAFT = {
    "target": (str, None, "'embedded', or a folder that holds voice.json or a LLaSA (stages draft and detectors)"),
    "tokens": (Path, None, "the folder of stage tokens"),
    "plan": (str, None, "feature, pcg, ssd, or layers of the target, as in 0,1,27 [default: pcg]"),
    "steps": (int, None, "of the draft [default: 2000]"),
    "longest": (int, None, "speech codes in a row of a batch [default: 800; for LLaSA 1400]"),
}


def add(app: typer.Typer) -> None:
    for command in (speak, compare, export_voice, serve, groups, transcribe, normalise, train):
        app.command()(command)
    benches = typer.Typer(help="Time the engine; JSON on the last line.", rich_markup_mode=None)
    benches.callback(invoke_without_command=True)(bench)
    for command in (quick, shape, batching, codec):
        benches.command()(command)
    app.add_typer(benches, name="bench")


@with_options(METHOD, SETTINGS, SPEAKER, MODEL, VERIFY, JSON)
def speak(
    text: str,
    options: SimpleNamespace,
    out: Annotated[Path, typer.Option(help="FILE.wav; - streams raw 16-bit PCM")] = Path("speech.wav"),
) -> None:
    """Say a text with one decoder."""
    from pcg.audio import as_int16, write_wav
    from pcg.saved_take import Origin, Stored
    from pcg.take import Sound, accepted_in_words
    from pcg.text.reading import check_text, plain_words, unread

    settings, streams = read_settings(options), str(out) == "-"
    if not streams and out.suffix.lower() != ".wav":
        raise InputError("out", str(out), "a name that ends in .wav, or -")
    check_text(text)
    if letters := unread(plain_words(text)):
        print(f"pcg: left out, as only English letters are read: {letters[:40]}", file=sys.stderr)
    synthesizer = load_synthesizer(options)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()  # the kernel is compiled or loaded on first use
    facts: dict[str, object] = {"out": str(out)}
    if options.verify:
        from pcg.asr.judges import best_take, load_judge

        judge = load_judge(options.judge, options.device)
        seeds = [(settings.seed + number) % 2**32 for number in range(options.verify)]
        take, trials = best_take(lambda seed: synthesizer.take(text, settings.with_(seed=seed), voice, reference), judge, seeds)
        for trial in trials:
            words = f"{counted(trial.errors, 'word error')}, heard: {trial.heard or 'no words'}"
            print(f"seed {trial.seed}: {words}", file=sys.stderr)
        seconds = round(sum(trial.seconds for trial in trials), 3)
        print(f"kept seed {take.settings.seed} of {counted(len(trials), 'take')} in {seconds:.1f} s", file=sys.stderr)
        facts["verified"] = {"judge": judge.name, "seconds": seconds, "takes": [asdict(trial) for trial in trials]}
        steps = iter((Sound(take.audio, take.sample_rate), take))
    else:
        steps = synthesizer.speak(text, settings, voice, reference, stream=streams)
    for step in steps:
        if streams and isinstance(step, Sound):
            sys.stdout.buffer.write(as_int16(step.samples).tobytes())
            sys.stdout.buffer.flush()
    take = step
    if not streams:
        stored = Stored.of(take, Origin.of(synthesizer.voice), reference)
        write_wav(out, take.audio, take.sample_rate, stored.to_json())
    # Where standard output takes the sound, words go to standard error.
    place = sys.stderr if streams else sys.stdout
    accepted = accepted_in_words(take.acceptance_rate, take.acceptance_of_tested, take.acceptance_by_position)
    times = f"{take.audio_seconds:.2f} s of audio in {take.wall_seconds:.2f} s"
    print(f"{out}: {times}, {take.tokens_per_second:.0f} tokens/s" + (f"; {accepted}" if accepted else ""), file=place)
    if options.json:
        print(json.dumps(take.summary() | facts), file=place)


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
    from pcg.text.reading import check_text, phonemise, plain_words, unread
    from pcg.text.reading import normalise as rewritten

    words = rewritten(check_text(text))
    print(f"words     {words}")
    print(f"phonemes  {''.join(phonemise(words))}")
    if letters := unread(plain_words(text)):
        print(f"left out  {letters}")


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
    synthesizer = load_synthesizer(options)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()
    rows = compare_methods(synthesizer, text, settings, voice, repeat, reference)
    cells = [
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
    print_table(cells)
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
    if options.voices is not None and options.voices.exists() and not options.voices.is_dir():
        raise InputError("voices", str(options.voices), "a folder")

    def service(door: socket.socket) -> "Replicas | SpeechService":
        if options.ray:
            address, bound = door.getsockname()[:2]
            name = f"pcg-{socket.gethostname()}-{address.replace(':', '.')}-{bound}"
            voice = options.model, options.device, options.draft, options.precision
            return Replicas(options.replicas or REPLICAS, *voice, name, options.exact_only)
        synthesizer = load_synthesizer(options)
        synthesizer.longest_seconds = LIMITS.job_seconds
        synthesizer.warm_up()
        return SpeechService(synthesizer)

    # The socket is opened before the model is loaded: a taken port costs nothing, and early requests are queued.
    host, port, family = options.host, options.port, socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        door = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InputError("port", port, f"one that is free on {host} and that you may open") from error
        raise InputError("host", host, "an address of this computer") from error
    with closing(door), closing(service(door)) as speech:
        api = create_api(
            speech,
            (model_name(Path(options.model)), options.model),
            options.api_key or os.environ.get("PCG_API_KEY") or None,
            hosts=tuple(options.allow_host),
            in_flight=options.in_flight,
            origins=tuple(options.cors_origin),
            strict=options.strict,
            voices=options.voices,
        )
        config = uvicorn.Config(api, log_level="warning", timeout_graceful_shutdown=LIMITS.stop_seconds)
        if options.ray and speech.offer.notice:
            print(speech.offer.notice, file=sys.stderr)
        print(f"Serving {options.model} on http://{host}:{door.getsockname()[1]}/v1", file=sys.stderr)
        uvicorn.Server(config).run(sockets=[door])


@with_options(SIMILARITY, JSON, {"model": MODEL["model"]})
def groups(
    options: SimpleNamespace,
    theta: Annotated[str, typer.Option(help="thresholds with commas between [default: some from 0.3 to 1]")] = "",
) -> None:
    """Print statistics of the Acoustic Similarity Groups at some thetas."""
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    thetas, similarity = read_thetas(theta) if theta else [], read_settings(options).similarity
    synthesizer, rows = Synthesizer(load_voice(options.model), show_progress=True), []
    floor = synthesizer.library.neighbours(similarity).floor
    for each in thetas or [each for each in THETAS if each >= floor]:
        begun = perf_counter()
        statistics = asdict(synthesizer.statistics(each, similarity))
        rows.append({"theta": each, **statistics, "seconds": round(perf_counter() - begun, 4)})
    print_table([{name: str(round(value, 4)) for name, value in row.items()} for row in rows])
    if options.json:
        print(json.dumps({"model": options.model, "similarity": similarity, "thetas": rows}))


@with_options(JSON)
def transcribe(
    file: list[Path],
    options: SimpleNamespace,
    mode: Annotated[str, typer.Option(help="ar, accurate, fast, or words (listed words: slower, fewest errors)")] = "accurate",
    recogniser: Annotated[Path | None, typer.Option(help="the folder of another recogniser than the shipped one")] = None,
) -> None:
    """Write down what recordings say, by self-speculative decoding."""
    from pcg.asr.embedded import EMBEDDED, load_recogniser
    from pcg.asr.judges import way_of
    from pcg.asr.self_speculative import listen_to_file

    way, rows = way_of(mode), []
    for each in file:
        if not each.is_file():
            raise InputError("audio file", str(each), "a file that is there")
    loaded = load_recogniser(recogniser or EMBEDDED)
    for each in file:
        begun = perf_counter()
        heard = listen_to_file(loaded, each, way)
        rtfx = round(heard.seconds / (perf_counter() - begun), 2)
        parts = [
            {"start": round(start, 3), "text": part.text, "stage": part.stage, "accepted": part.accepted_text}
            for start, part in zip(heard.starts, heard.parts, strict=True)
        ]
        stage = max((part.stage for part in heard.parts), key=STAGES.index, default="ctc")
        facts = {"file": str(each), "text": heard.text, "stage": stage, "rtfx": rtfx, "judge": loaded.name, "parts": parts}
        rows.append(facts)
        print(f"{each}: {heard.text or 'no words were understood'}")
    if options.json:
        print(json.dumps(rows[0] if len(rows) == 1 else rows))


@with_options(MODEL, THREADS, BENCH)
def bench(context: typer.Context, options: SimpleNamespace) -> None:
    """Time the engine against its ceiling, transformers and its own bound."""
    if not context.invoked_subcommand:
        from pcg.bench.engine import bench_engine

        print(json.dumps(bench_engine(load_synthesizer(options), Settings(), options.repeats)))


@with_options(MODEL, THREADS)
def quick(options: SimpleNamespace) -> None:
    """Answer in 20 seconds whether drafting pays on this computer, and with which lookahead."""
    from pcg.bench.costs import will_it_pay

    verdict = will_it_pay(load_synthesizer(options), Settings())
    print(verdict.sentence, json.dumps(verdict.as_dict()), sep="\n")


@with_options(BENCH)
def shape(
    options: SimpleNamespace,
    shape: Annotated[str, typer.Option(help="small, llasa-1b, llasa-3b or llasa-8b")] = "llasa-8b",
    device: str = "cpu",
) -> None:
    """Time random weights of a shape, with forced length and acceptance."""
    from pcg.bench.shapes import random_pair, shape_figures

    print(json.dumps(shape_figures(shape, random_pair(shape, device), device, options.repeats)))


@with_options(MODEL, BENCH, {"threads": (int, 1, "threads of torch", 1)})
def batching(
    options: SimpleNamespace, clients: Annotated[int, typer.Option(help="how many speak at once", min=1)] = 16
) -> None:
    """Time clients at once against one by one."""
    from pcg.bench.batching import bench_batching

    print(json.dumps(bench_batching(load_synthesizer(options), clients, options.repeats)))


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
    print(json.dumps(bench_codec(opened, file, heard_by, text, options.repeats)))


@with_options(TRAIN, TRAIN_TOKENS, TRAIN_DRAFT)
def train(options: SimpleNamespace, stage: Annotated[str, typer.Argument(help=", ".join(TRAIN_STAGES))]) -> None:
    """Train the embedded voice, its recogniser, detectors, or a draft for any target; resume where it stopped."""
    if stage not in TRAIN_STAGES:
        raise InputError("stage", stage, "one of " + ", ".join(TRAIN_STAGES))
    recipe, out, seed = options.recipe, options.out, options.seed
    if stage == "recogniser":
        from pcg.training.recogniser import RecogniserRecipe, train_recogniser

        run = options.device, seed, options.processes, RecogniserRecipe.read(recipe)
        train_recogniser(options.work, out or Path("assets/recogniser"), *run)
    elif stage == "detectors":
        from pcg.synthesis.voice import load_voice
        from pcg.training.detectors import DetectorRecipe, train_detectors_of

        voice, run = load_voice(options.target or "embedded"), (options.device, seed, DetectorRecipe.read(recipe))
        train_detectors_of(voice, options.work, out or Path("assets/detectors"), *run)
    elif stage == "tokens":
        _tokens(options)
    elif stage == "draft" and options.target is not None:
        _draft(options)
    else:
        from pcg.training.voice import VoiceRecipe
        from pcg.training.voice import train as train_voice

        if recipe is not None and out is None and stage in ("publish", "all"):
            raise InputError("out", None, "a folder for the voice of this recipe")
        run = options.device, seed, options.processes, VoiceRecipe.read(recipe, minutes=options.minutes)
        train_voice(stage, options.work, options.prose, out or Path("assets/voice"), *run)


def _tokens(options: SimpleNamespace) -> None:
    from pcg.training.samples import prepare_tokens

    if options.speech is None or not options.speech.is_dir():
        raise InputError("speech", options.speech and str(options.speech), "a folder of recordings with transcripts")
    tokens = _given(options, "tokens", "the folder that the codes go to")
    utterances, left_out = prepare_tokens(options.speech, options.codec, tokens, options.device)
    print(f"tokens: {counted(utterances, 'utterance')}; {counted(left_out, 'recording')} left out")


def _draft(options: SimpleNamespace) -> None:
    from pcg.training.draft import DraftRecipe, train_for

    tokens, out = _given(options, "tokens", "a folder of stage tokens"), _given(options, "out", "the folder of the draft")
    given = {name: getattr(options, name) for name in ("plan", "steps", "longest", "seed")}
    accepted = train_for(DraftRecipe.read(options.recipe, **given), options.target, tokens, out, options.device)
    print(f"draft: {out}; accepted of what it drafts: {', '.join(f'{k} {v:.3f}' for k, v in accepted.items())}")


def _given(options: SimpleNamespace, name: str, what: str) -> Path:
    """Check the device, and return an option that this stage needs."""
    from pcg.models.weights import check_device

    check_device(options.device)
    if (value := getattr(options, name)) is None:
        raise InputError(name, None, what)
    return value
