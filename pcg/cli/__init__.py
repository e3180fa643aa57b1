"""The command line: `python -m pcg COMMAND`. Errors are one sentence on standard error and exit code 2."""

import errno
import os
import sys
import warnings
from collections.abc import Sequence

import typer

from pcg.cli import commands, experiments
from pcg.errors import PCGError, unexpected
from pcg.settings import Settings

KINDS = {"int": "a whole number", "float": "a number", "greater": "at least {ge:g}", "less": "at most {le:g}"}


def create_app() -> typer.Typer:
    app = typer.Typer(
        help="Speculative decoding for speech tokens: AR, SD, SSD and PCG.", rich_markup_mode=None, add_completion=False
    )
    for module in (commands, experiments):
        module.add(app)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 2 after an error, 130 after Ctrl-C, 141 when standard output was closed."""
    # Bars and notices of other libraries would stand between a user and the result.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    command, words = typer.main.get_command(create_app()), list(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.showwarning = lambda message, *_: print(f"pcg: {message}", file=sys.stderr)
            with command.make_context("pcg", words) as context:
                command.invoke(context)
        if sys.stdout:
            sys.stdout.flush()
        return 0
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        sentence, code = "stopped.", 130
    except BrokenPipeError:
        sentence, code = "", 141
    except Exception as error:
        sentence, code = _sentence(error), 2
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:  # what could not be written is dropped: the interpreter would print a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if sentence:
        sys.stderr.write(f"pcg: {sentence}\n")
    return code


def _sentence(error: Exception) -> str:
    """Return an error as one sentence; that of an option says: FIELD is VALUE, but must be ALLOWED."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full: what was written is not whole."
    if isinstance(error, ModuleNotFoundError):
        return f'{error.name} is not installed: pip install "pcg-lab[app] @ git+URL" brings what this command needs.'
    if isinstance(error, PCGError) or not hasattr(error, "format_message"):
        return str(error if isinstance(error, PCGError) else unexpected(error))
    parameter, cause = getattr(error, "param", None), error.__cause__
    if parameter and hasattr(cause, "errors"):
        first, name = cause.errors()[0], parameter.name
        kind = KINDS.get(first["type"].partition("_")[0], "a value of its kind").format(**first.get("ctx", {}))
        allowed = Settings.allowed(name) if name in Settings.model_fields else kind
        return f"{name.replace('_', '-')} is {first['input']!r}, but must be {allowed}."
    return " ".join(error.format_message().split()).rstrip(".") + "."
