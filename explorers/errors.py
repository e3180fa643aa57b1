"""Errors on the page: the same sentences as on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import gradio as gr

from pcg.errors import PCGError


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
