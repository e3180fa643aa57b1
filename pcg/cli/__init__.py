"""The command line. Bad input is one sentence on stderr and exit code 2."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from pcg.cli import bench, compare, evaluate, experiment, groups, report, speak, swap, train, transcribe
from pcg.errors import PCGError

COMMANDS = (speak, compare, groups, bench, transcribe, evaluate, swap, experiment, report, train)


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


class _Parser(argparse.ArgumentParser):
    """argparse, with its complaints as one sentence in place of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"pcg: {message.rstrip('.')}.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pcg", description="Speculative decoding for speech tokens: AR, SD, SSD and PCG.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser
