"""The command line. Bad input is one sentence on stderr and exit code 2, and so is an error that nobody foresaw."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from pcg.cli import bench, compare, experiment, groups, report, serve, speak, swap, train, transcribe
from pcg.errors import PCGError, unexpected

COMMANDS = (speak, serve, compare, groups, bench, transcribe, swap, experiment, report, train)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # Bars and notices of the libraries below would stand between a user and the one line that matters.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.showwarning = _warn
            command(options)
        if sys.stdout:
            sys.stdout.flush()
    except PCGError as error:
        return _ended(f"pcg: {error}\n", 2)
    except KeyboardInterrupt:
        return _ended("pcg: stopped.\n", 130)
    except BrokenPipeError:  # whoever reads standard output, as `head` does, has read enough
        return _ended("", 141)
    except ModuleNotFoundError as error:
        needed = f'{error.name} is not installed: pip install "pcg-lab[app] @ git+URL" brings what this command needs'
        return _ended(f"pcg: {needed}.\n", 2)
    except Exception as error:
        return _ended(f"pcg: {unexpected(error)}\n", 2)
    return 0


def _warn(message: Warning | str, *_place_in_the_code: object) -> None:
    print(f"pcg: {message}", file=sys.stderr)


def _ended(said: str, code: int) -> int:
    """Say it on standard error. What standard output does not take goes nowhere: at its end the interpreter would try again,
    and print a traceback."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.stderr.write(said)
    return code


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
