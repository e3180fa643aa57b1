"""pcg train: the embedded voice, its recogniser, its spoof detectors, or a draft for any target."""

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from pcg.cli.options import with_options
from pcg.errors import InputError, counted

VOICE_STAGES = ("corpus", "codec", "target", "draft", "baselines", "publish", "all", "unpack")
RECOGNISER_STAGES = ("recogniser", "unpack-recogniser", "words")
RECOGNISER = Path("assets/recogniser")
DETECTORS = "detectors"
STAGES = (*VOICE_STAGES, *RECOGNISER_STAGES, "tokens", DETECTORS)
SIZES = ("small", "paper")
COMMON = {
    "work": (Path, Path("runs"), "corpus and checkpoints"),
    "prose": (Path, None, "a text file of English prose, one sentence a line (stages corpus and words)"),
    "out": (Path, None, "where the result goes [default: assets/voice, assets/recogniser or assets/detectors, by stage]"),
    "recipe": (Path, None, "FILE.yaml with the choices that differ from those of the embedded voice (its stages)"),
    "device": (str, "cpu", "cpu or cuda"),
    "seed": (int, 0, ""),
    "processes": (int, 2, "synthesizers side by side (stage corpus)"),
    "size": (str, SIZES[0], "of the detectors: small, or paper for the paper's"),
}
TOKENS = {
    "speech": (Path, None, "recordings with transcripts: LibriTTS's layout, or name.wav and name.txt (stage tokens)"),
    "codec": (str, "embedded", "'embedded' or the folder of a codec (stage tokens)"),
}
DRAFT = {
    "target": (str, None, "'embedded', or a folder that holds voice.json or a LLaSA (stage draft)"),
    "tokens": (Path, None, "the folder of stage tokens"),
    "plan": (str, None, "feature, pcg, ssd, or layers of the target, as in 0,1,27 [default: pcg]"),
    "objective": (str, None, "ce, distil, both or overlap [default: ce of plans pcg and ssd, overlap of feature]"),
    "taps": (str, None, "of plan feature: which layers it reads, as in 3,6,9,12 [default: after each quarter]"),
    "rank": (int, None, "of plan feature: of its head [default: 0, the target's own head]"),
    "steps": (int, None, "[default: 2000]"),
    "samples": (int, None, "texts that the target says for the draft [default: 2400]"),
    "temperature": (float, None, "of these samples and of the trials [default: 0.8]"),
    "budget": (int, None, "tokens in a batch [default: 4096]"),
    "longest": (int, None, "speech codes in a row of a batch [default: 800; for LLaSA 1400]"),
    "lr": (float, None, "[default: 0.003 at width 256, falling with the target's width]"),
    "precision": (str, None, "bf16 or fp32 [default: bf16]"),
}


def add(app: typer.Typer) -> None:
    app.command()(train)


@with_options(COMMON, TOKENS, DRAFT)
def train(options: SimpleNamespace, stage: Annotated[str, typer.Argument(help=", ".join(STAGES))]) -> None:
    """Train the embedded voice, its recogniser, detectors, or a draft for any target; resume where it stopped."""
    options.stage = stage
    if stage not in STAGES:
        raise InputError("stage", stage, "one of " + ", ".join(STAGES))
    if options.size not in SIZES:
        raise InputError("size", options.size, "one of " + ", ".join(SIZES))
    if options.recipe is not None and (stage not in VOICE_STAGES or options.target is not None):
        raise InputError("recipe", str(options.recipe), "left out here: only the stages of a voice take one")
    if stage in RECOGNISER_STAGES:
        _recogniser(options)
    elif stage == DETECTORS:
        _detectors(options)
    elif stage == "tokens":
        _tokens(options)
    elif stage == "draft" and options.target is not None:
        _draft(options)
    else:
        _voice(options)


def _voice(options: SimpleNamespace) -> None:
    from pcg.training.voice import read_recipe
    from pcg.training.voice import train as train_voice

    if options.recipe is not None and options.out is None and options.stage in ("publish", "all"):
        raise InputError("out", None, "a folder for the voice of this recipe")
    recipe = read_recipe(options.recipe) if options.recipe is not None else None
    out = options.out or Path("assets/voice")
    made = (options.stage, options.work, options.prose, out, options.device, options.seed, options.processes)
    train_voice(*made, recipe)


def _detectors(options: SimpleNamespace) -> None:
    from pcg.synthesis.voice import load_voice
    from pcg.training.detectors import DetectorRecipe, train_detectors_of

    voice, out = load_voice(options.target or "embedded"), options.out or Path("assets/detectors")
    train_detectors_of(voice, options.work, out, options.device, options.seed, DetectorRecipe.of_size(options.size))


def _recogniser(options: SimpleNamespace) -> None:
    from pcg.training.recogniser import publish_words, train_recogniser, unpack

    out = options.out or RECOGNISER
    if options.stage == "words":
        publish_words(options.prose, out, options.seed)
    elif options.stage == "unpack-recogniser":
        unpack(options.work, out, options.seed)
    else:
        train_recogniser(options.work, out, options.device, options.seed, options.processes)


def _tokens(options: SimpleNamespace) -> None:
    if options.speech is None or not options.speech.is_dir():
        raise InputError("speech", str(options.speech), "a folder of recordings with transcripts")
    if options.tokens is None:
        raise InputError("tokens", None, "the folder that the codes go to")
    _check_device(options.device)
    from pcg.training.samples import open_codec, prepare_tokens

    codec, digest = open_codec(options.codec, options.device)
    made = prepare_tokens(options.speech, codec, digest, options.tokens, lambda done, of: print(f"tokens: {done}/{of} shards"))
    left_out = counted(made.left_out, "recording")
    print(f"tokens: {counted(made.utterances, 'utterance')}, {made.hours:.1f} hours; {left_out} left out")


def _draft(options: SimpleNamespace) -> None:
    if options.tokens is None:
        raise InputError("tokens", None, "a folder that `pcg train tokens` wrote")
    if options.out is None:
        raise InputError("out", None, "the folder that the draft goes to")
    from pcg.training.draft import DraftJob, train_for

    _check_device(options.device)
    job = DraftJob(**_given(DraftJob, options))
    said = ", ".join(f"{name} {value:.3f}" for name, value in train_for(job, options.device).items())
    print(f"draft: {job.out}; accepted of what it drafts: {said}")


def _check_device(device: str) -> None:
    import torch

    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))


def _given(schema: type, options: SimpleNamespace) -> dict[str, Any]:
    """Return the given options that `schema` has fields for."""
    named = {f.name: getattr(options, f.name, None) for f in fields(schema)}
    return {name: value for name, value in named.items() if value is not None}
