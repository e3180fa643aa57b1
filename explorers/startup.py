"""Import this before gradio and torch: the settings that they read when they are imported."""

import inspect
import os
import sys

from pcg.models.hub import named_model, needs_hub

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
# Only a model from the hub needs the network.
os.environ.setdefault("HF_HUB_OFFLINE", "0" if needs_hub(named_model(sys.argv[1:])) else "1")
if "SPACE_ID" in os.environ:  # a proxy forwards every request
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "*")

# Gradio parses its own sources to write stubs for editors, which takes a second; it writes none for a class without a file.
_file_of = inspect.getfile


def _no_file_of_components(thing: object) -> str:
    if isinstance(thing, type) and thing.__module__.startswith("gradio."):
        raise OSError
    return _file_of(thing)


inspect.getfile = _no_file_of_components
try:
    import gradio  # noqa: F401
    import spaces  # noqa: F401 - patches torch where a GPU is lent by the call
finally:
    inspect.getfile = _file_of
