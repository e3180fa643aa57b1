"""ZeroGPU, the hardware of a Space that lends a GPU for the length of a call. No effect outside ZeroGPU."""

from collections.abc import Callable
from inspect import isgeneratorfunction
from math import ceil

import spaces
from spaces.config import Config

from explorers.errors import showing_errors

SECONDS_PER_CHARACTER = 0.09
STARTING_SECONDS = 15
LONGEST_SECONDS = 110
"""Less than the longest call of a visitor without a subscription, about 120 s. The cap is not documented and may change
(huggingface.co/spaces/zero-gpu-explorers/README/discussions/34); without an account 120 s are the quota of a day
(huggingface.co/docs/hub/spaces-zerogpu)."""


def is_lent() -> bool:
    """Return whether this is a Space whose GPU is lent by the call."""
    return Config.zero_gpu


def on_gpu(function: Callable, seconds: Callable[..., int]) -> Callable:
    """Run `function`, which may be a generator, with a GPU for `seconds` of the same arguments.

    It runs in a forked process: arguments and results are pickled, and only Gradio's exceptions come back."""
    if not is_lent():
        return function

    def steps(*arguments: object) -> object:
        with showing_errors():
            yield from function(*arguments)

    shown = steps if isgeneratorfunction(function) else showing_errors()(function)
    return spaces.GPU(duration=seconds, size="large")(shown)


def gpu_seconds(text: str, takes: int) -> int:
    """Return the seconds of GPU to request for `takes` takes of `text`."""
    return min(LONGEST_SECONDS, STARTING_SECONDS + ceil(takes * len(text) * SECONDS_PER_CHARACTER))
