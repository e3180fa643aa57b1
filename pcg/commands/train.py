"""pcg train: the embedded voice, or its recogniser, from nothing."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcg.commands.common import Commands


VOICE_STAGES = ("corpus", "codec", "target", "draft", "publish", "all", "unpack")
RECOGNISER_STAGES = ("recogniser", "unpack-recogniser")


def add(commands: "Commands") -> None:
    parser = commands.add_parser(
        "train", help="train the embedded voice, or its recogniser, from nothing; resumes where it stopped"
    )
    parser.add_argument("stage", choices=(*VOICE_STAGES, *RECOGNISER_STAGES))
    parser.add_argument("--work", type=Path, default=Path("runs"), help="corpus and checkpoints (default runs/)")
    parser.add_argument("--prose", type=Path, help="a text file of English prose, one sentence a line (stage corpus)")
    parser.add_argument("--out", type=Path, help="where publish writes (and unpack reads): assets/voice, or assets/recogniser")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2, help="synthesizers side by side (stage corpus)")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    if options.stage in RECOGNISER_STAGES:
        from pcg.training.judge_recipe import train_recogniser, unpack

        out = options.out or Path("assets/recogniser")
        if options.stage == "unpack-recogniser":
            unpack(options.work, out, options.seed)
        else:
            train_recogniser(options.work, out, options.device, options.seed, options.processes)
        return
    from pcg.training.recipe import train

    out = options.out or Path("assets/voice")
    train(options.stage, options.work, options.prose, out, options.device, options.seed, options.processes)
