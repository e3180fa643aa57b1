"""How the page tells that something was refused: the same sentence that the command line says."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import gradio as gr

from pcg.errors import PCGError


def told(error: PCGError) -> gr.Error:
    """The sentence for the page, which would run what it takes for HTML."""
    return gr.Error(escape(str(error), quote=False), print_exception=False)


@contextmanager
def telling() -> Iterator[None]:
    """Around the work of a handler: a PCGError is told, anything else is a fault and passes."""
    try:
        yield
    except PCGError as error:
        raise told(error) from error
