"""A page of gradio's that is served while a test asks it."""

from collections.abc import Iterator

import gradio as gr
from gradio_client import Client

from pcg.settings import METHODS


def in_hand() -> gr.Radio:
    """What tells a panel which card's take is in hand."""
    return gr.Radio(list(METHODS), value="pcg", visible=False, label="Method")


def serve(app: gr.Blocks, **options: object) -> Iterator[str]:
    """Yield where `app` is served."""
    _, url, _ = app.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **options)
    yield url
    app.close(verbose=False)


def serve_clients(app: gr.Blocks, **options: object) -> Iterator[Client]:
    for url in serve(app, **options):
        yield Client(url, verbose=False)
