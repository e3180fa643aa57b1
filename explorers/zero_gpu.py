"""ZeroGPU, the hardware of a Space that lends a GPU for the length of a call. No effect outside ZeroGPU."""

from collections.abc import Callable, Iterator
from inspect import isgeneratorfunction
from math import ceil
from typing import ParamSpec, TypeVar

import spaces
from spaces.config import Config

from explorers.errors import showing_errors
from pcg.text.reading import MAX_CHARACTERS, MAX_PHONEMES, normalise

SECONDS_PER_CHARACTER = 0.08
STARTING_SECONDS = 15
LONGEST_SECONDS = 120

P = ParamSpec("P")
R = TypeVar("R")


def is_lent() -> bool:
    """Whether this is a Space whose GPU is lent by the call."""
    return Config.zero_gpu


def on_gpu(function: Callable[P, R], duration: Callable[P, int]) -> Callable[P, R]:
    """Run `function`, which may be a generator, with a GPU for `duration` seconds, computed from the same arguments.

    It runs in a forked process: arguments and results are pickled, and only Gradio's exceptions come back.
    """
    if not is_lent():
        return function

    def steps(*arguments: P.args) -> Iterator[object]:
        with showing_errors():
            yield from function(*arguments)

    def once(*arguments: P.args) -> R:
        with showing_errors():
            return function(*arguments)

    return spaces.GPU(duration=duration)(steps if isgeneratorfunction(function) else once)


def gpu_seconds(text: object, takes: float = 1) -> int:
    """The seconds of GPU to request for `takes` takes of `text`."""
    spoken = normalise(text[:MAX_CHARACTERS]) if isinstance(text, str) else ""
    characters = min(len(spoken), MAX_PHONEMES)
    return min(LONGEST_SECONDS, STARTING_SECONDS + ceil(takes * characters * SECONDS_PER_CHARACTER))
