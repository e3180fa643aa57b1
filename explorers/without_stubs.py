"""Importing this before gradio spares over a second at every start: gradio parses its own sources then, to write stubs for
editors. It writes none for a class without a file."""

import inspect

_file_of = inspect.getfile


def _no_file_of_components(thing: object) -> str:
    if isinstance(thing, type) and thing.__module__.startswith("gradio."):
        raise OSError
    return _file_of(thing)


inspect.getfile = _no_file_of_components
try:
    import gradio  # noqa: F401
finally:
    inspect.getfile = _file_of
