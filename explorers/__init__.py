"""The panels of the page, one folder each, thin over `pcg`: `layout.py` holds gradio, `actions.py` does not.

Gradio and torch read these settings when they are imported, later than this.
"""

import os
import sys

from pcg.models.hub import named_model, needs_hub

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
# Only a model from the hub needs the network.
os.environ.setdefault("HF_HUB_OFFLINE", "0" if needs_hub(named_model(sys.argv[1:])) else "1")
if "SPACE_ID" in os.environ:  # a proxy forwards every request
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "*")

import spaces  # noqa: F401 - patches torch where a GPU is lent by the call
