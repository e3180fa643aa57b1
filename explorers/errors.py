"""Errors on the page: the same sentences as on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from html import escape

import gradio as gr

from pcg.errors import PCGError, unexpected


def page_error(error: PCGError) -> gr.Error:
    """The sentence for the page, escaped, as the page would run HTML."""
    return gr.Error(escape(str(error), quote=False), print_exception=False)


@contextmanager
def showing_errors() -> Iterator[None]:
    """Around the work of a handler: a PCGError is shown, anything else is a fault and passes."""
    try:
        yield
    except PCGError as error:
        raise page_error(error) from error


def fault(error: Exception) -> PCGError:
    """What a visitor is told of an error that no handler foresaw; it is in the log."""
    if isinstance(error, PCGError):
        return error
    if isinstance(error, OSError) and error.errno == ENOSPC:
        return PCGError("The disk of this server is full: nothing was kept.")
    return unexpected(error)
