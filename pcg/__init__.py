"""The engine of PCG Lab: decoders, acceptance rules, groups, codecs and metrics. It knows neither gradio nor plotly.

`from pcg import Settings, Synthesizer, load_voice` is the library; see `docs/api.md`. They are looked up at their first use,
so that the command line answers before PyTorch is imported.
"""

from importlib import import_module

_HOMES = {
    "Settings": "pcg.settings",
    "Synthesizer": "pcg.synthesis.synthesizer",
    "__version__": "pcg.files",
    "load_voice": "pcg.synthesis.voice",
    "write_wav": "pcg.audio",
}
__all__ = ["Settings", "Synthesizer", "__version__", "load_voice", "write_wav"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pcg' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
