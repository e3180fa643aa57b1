"""pcg train: the embedded voice, its recogniser, its spoof detectors, or a draft for any target, from nothing."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcg.errors import InputError, counted

if TYPE_CHECKING:
    from pcg.cli.common import Commands

VOICE_STAGES = ("corpus", "codec", "target", "draft", "baselines", "publish", "all", "unpack")
RECOGNISER_STAGES = ("recogniser", "unpack-recogniser", "words")
RECOGNISER = Path("assets/recogniser")
DRAFT_STAGES = ("tokens",)
DETECTORS = "detectors"
SIZES = ("small", "paper")


def add(commands: "Commands") -> None:
    parser = commands.add_parser(
        "train", help="train the embedded voice, its recogniser, or a draft for any target; resumes where it stopped"
    )
    parser.add_argument("stage", choices=(*VOICE_STAGES, *RECOGNISER_STAGES, *DRAFT_STAGES, DETECTORS))
    parser.add_argument("--work", type=Path, default=Path("runs"), help="corpus and checkpoints (default runs/)")
    parser.add_argument(
        "--prose", type=Path, help="a text file of English prose, one sentence a line (stages corpus and words)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="where publish writes (and unpack reads): assets/voice, or assets/recogniser; where a draft's folder goes",
    )
    parser.add_argument(
        "--recipe", type=Path, help="FILE.yaml with the choices that differ from those of the embedded voice (its stages)"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2, help="synthesizers side by side (stage corpus)")
    parser.add_argument(
        "--size", choices=SIZES, default=SIZES[0], help="stage detectors: small, or as large as the paper's (default small)"
    )
    _add_draft(parser)
    parser.set_defaults(command=run)


def _add_draft(parser: argparse.ArgumentParser) -> None:
    tokens = parser.add_argument_group("stage tokens")
    tokens.add_argument("--speech", type=Path, help="recordings with transcripts: LibriTTS's layout, or name.wav and name.txt")
    tokens.add_argument("--codec", default="embedded", help="'embedded' or the folder of a codec (default embedded)")
    draft = parser.add_argument_group("stage draft, for a target of one's own (--target)")
    draft.add_argument("--target", help="'embedded', or a folder that holds voice.json or a LLaSA")
    draft.add_argument("--tokens", type=Path, help="what stage tokens wrote, or will write")
    draft.add_argument("--plan", help="feature, pcg, ssd, or layers of the target, as in 0,1,27 (default pcg)")
    draft.add_argument("--objective", help="ce, distil, both or overlap (default: ce of plans pcg and ssd, overlap of feature)")
    draft.add_argument("--taps", help="of plan feature: which layers it reads, as in 3,6,9,12 (default after each quarter)")
    draft.add_argument("--rank", type=int, help="of plan feature: of its head, as in 64 (default 0: the target's own head)")
    draft.add_argument("--steps", type=int, help="default 2000")
    draft.add_argument("--samples", type=int, help="texts that the target says for the draft (default 2400)")
    draft.add_argument("--temperature", type=float, help="of these samples, and of the trials (default 0.8)")
    draft.add_argument("--budget", type=int, help="tokens in a batch (default 4096)")
    draft.add_argument("--longest", type=int, help="speech codes in a row of a batch (default 800; for LLaSA 1400)")
    draft.add_argument("--lr", type=float, help="default 0.003 at width 256, falling with the target's width")
    draft.add_argument("--precision", help="bf16 or fp32 (default bf16)")


def run(options: argparse.Namespace) -> None:
    if options.recipe is not None and (options.stage not in VOICE_STAGES or options.target is not None):
        raise InputError("recipe", str(options.recipe), "left out here: only the stages of a voice take one")
    if options.stage in RECOGNISER_STAGES:
        _recogniser(options)
    elif options.stage == DETECTORS:
        _detectors(options)
    elif options.stage == "tokens":
        _tokens(options)
    elif options.stage == "draft" and options.target is not None:
        _draft(options)
    else:
        _voice(options)


def _voice(options: argparse.Namespace) -> None:
    from pcg.training.voice import read_recipe, train

    if options.recipe is not None and options.out is None and options.stage in ("publish", "all"):
        raise InputError("out", None, "a folder for the voice of this recipe")
    recipe = read_recipe(options.recipe) if options.recipe is not None else None
    out = options.out or Path("assets/voice")
    train(options.stage, options.work, options.prose, out, options.device, options.seed, options.processes, recipe)


def _detectors(options: argparse.Namespace) -> None:
    from pcg.synthesis.voice import load_voice
    from pcg.training.detectors import DetectorRecipe, train_detectors_of

    voice, out = load_voice(options.target or "embedded"), options.out or Path("assets/detectors")
    train_detectors_of(voice, options.work, out, options.device, options.seed, DetectorRecipe.of_size(options.size))


def _recogniser(options: argparse.Namespace) -> None:
    from pcg.training.recogniser import publish_words, train_recogniser, unpack

    out = options.out or RECOGNISER
    if options.stage == "words":
        publish_words(options.prose, out, options.seed)
    elif options.stage == "unpack-recogniser":
        unpack(options.work, out, options.seed)
    else:
        train_recogniser(options.work, out, options.device, options.seed, options.processes)


def _tokens(options: argparse.Namespace) -> None:
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


def _draft(options: argparse.Namespace) -> None:
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


def _given(schema: type, options: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, of those that `schema` has fields for."""
    named = {f.name: getattr(options, f.name, None) for f in fields(schema)}
    return {name: value for name, value in named.items() if value is not None}
