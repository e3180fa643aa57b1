"""pcg train: the embedded voice, its recogniser, its spoof detectors, or a draft for any target."""

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import typer

from pcg.cli.options import with_options
from pcg.errors import InputError, counted

STAGES = (
    "corpus", "codec", "target", "draft", "publish", "all", "unpack", "recogniser", "words", "tokens", "detectors",
)  # fmt: skip
COMMON = {
    "work": (Path, Path("runs"), "corpus and checkpoints"),
    "prose": (Path, None, "a text file of English prose, one sentence a line (stages corpus and words)"),
    "out": (Path, None, "where the result goes [default: assets/voice, assets/recogniser or assets/detectors, by stage]"),
    "recipe": (Path, None, "FILE.yaml with the choices that differ from the defaults"),
    "device": (str, "cpu", "cpu or cuda"),
    "seed": (int, 0, ""),
    "processes": (int, 2, "synthesizers side by side (stage corpus)"),
    "size": (str, None, "of the detectors: small, or paper for the paper's"),
}
TOKENS = {
    "speech": (Path, None, "recordings with transcripts: LibriTTS's layout, or name.wav and name.txt (stage tokens)"),
    "codec": (str, "embedded", "'embedded' or the folder of a codec (stage tokens)"),
}
DRAFT = {
    "target": (str, None, "'embedded', or a folder that holds voice.json or a LLaSA (stages draft and detectors)"),
    "tokens": (Path, None, "the folder of stage tokens"),
    "plan": (str, None, "feature, pcg, ssd, or layers of the target, as in 0,1,27 [default: pcg]"),
    "objective": (str, None, "ce, distil or overlap [default: ce of plans pcg and ssd, overlap of feature]"),
    "steps": (int, None, "of the draft [default: 2000]"),
    "longest": (int, None, "speech codes in a row of a batch [default: 800; for LLaSA 1400]"),
}


def add(app: typer.Typer) -> None:
    app.command()(train)


@with_options(COMMON, TOKENS, DRAFT)
def train(options: SimpleNamespace, stage: Annotated[str, typer.Argument(help=", ".join(STAGES))]) -> None:
    """Train the embedded voice, its recogniser, detectors, or a draft for any target; resume where it stopped."""
    if stage not in STAGES:
        raise InputError("stage", stage, "one of " + ", ".join(STAGES))
    recipe, out, seed = options.recipe, options.out, options.seed
    if stage == "words":
        from pcg.training.recogniser import publish_words

        publish_words(options.prose, out or Path("assets/recogniser"), seed)
    elif stage == "recogniser":
        from pcg.training.recogniser import RecogniserRecipe, train_recogniser

        run = options.device, seed, options.processes, RecogniserRecipe.read(recipe)
        train_recogniser(options.work, out or Path("assets/recogniser"), *run)
    elif stage == "detectors":
        from pcg.synthesis.voice import load_voice
        from pcg.training.detectors import DetectorRecipe, train_detectors_of

        asked, voice = DetectorRecipe.read(recipe, size=options.size), load_voice(options.target or "embedded")
        train_detectors_of(voice, options.work, out or Path("assets/detectors"), options.device, seed, asked)
    elif stage == "tokens":
        _tokens(options)
    elif stage == "draft" and options.target is not None:
        _draft(options)
    else:
        from pcg.training.voice import VoiceRecipe
        from pcg.training.voice import train as train_voice

        if recipe is not None and out is None and stage in ("publish", "all"):
            raise InputError("out", None, "a folder for the voice of this recipe")
        run = options.device, seed, options.processes, VoiceRecipe.read(recipe)
        train_voice(stage, options.work, options.prose, out or Path("assets/voice"), *run)


def _tokens(options: SimpleNamespace) -> None:
    from pcg.synthesis.voice import open_codec
    from pcg.training.loop import check_device
    from pcg.training.samples import codec_digest, prepare_tokens

    if options.speech is None or not options.speech.is_dir():
        raise InputError("speech", str(options.speech), "a folder of recordings with transcripts")
    if options.tokens is None:
        raise InputError("tokens", None, "the folder that the codes go to")
    check_device(options.device)
    digest, codec = codec_digest(options.codec), open_codec(options.codec, options.device)
    utterances, left_out, hours = prepare_tokens(options.speech, codec, digest, options.tokens)
    print(f"tokens: {counted(utterances, 'utterance')}, {hours:.1f} hours; {counted(left_out, 'recording')} left out")


def _draft(options: SimpleNamespace) -> None:
    from pcg.training.draft import DraftRecipe, train_for
    from pcg.training.loop import check_device

    if options.tokens is None:
        raise InputError("tokens", None, "a folder that `pcg train tokens` wrote")
    if options.out is None:
        raise InputError("out", None, "the folder that the draft goes to")
    check_device(options.device)
    given = {name: getattr(options, name) for name in ("plan", "objective", "steps", "longest", "seed")}
    accepted = train_for(DraftRecipe.read(options.recipe, **given), options.target, options.tokens, options.out, options.device)
    print(f"draft: {options.out}; accepted of what it drafts: {', '.join(f'{k} {v:.3f}' for k, v in accepted.items())}")
