"""ZeroGPU, the hardware of a Space that lends a GPU for the length of a call. Anywhere else nothing here does anything.

The function runs in a process that is forked from this one: arguments and results are pickled on their way, so that an
object that this process goes on changing is a copy there, and of all exceptions only Gradio's own come back.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from inspect import isgeneratorfunction
from math import ceil
from typing import ParamSpec, TypeVar

import spaces
from spaces.config import Config

from pcg.errors import PCGError
from pcg.text.text import MAX_CHARACTERS, MAX_SPOKEN_CHARACTERS, normalise

SECONDS_PER_CHARACTER = 0.08
"""Of speech, as nearly all takes of the shipped results are faster (`audio_seconds` over the length of the text)."""
WORK_PER_SECOND = 1.0
"""Seconds of work for a second of speech. No ZeroGPU has been timed yet: a model that does worse is of no use live."""
STARTING_SECONDS = 15
"""For the weights to reach the GPU, and for CUDA graphs to be recorded, when the process is new."""
LONGEST_SECONDS = 120

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class _Refused:
    """A PCGError on its way back."""

    sentence: str


def is_lent() -> bool:
    """Whether this is a Space whose GPU is lent by the call."""
    return Config.zero_gpu


def on_gpu(function: Callable[P, R], duration: Callable[P, int]) -> Callable[P, R]:
    """`function`, a generator or not, with a GPU while it runs; `function` itself where no ZeroGPU is.

    duration: the seconds to request, from the same arguments; a shorter request waits less, a call beyond it is cut off.
    Arguments and results must be picklable and on the CPU. A PCGError is raised here as it would be there.
    """
    if not is_lent():
        return function
    lend = spaces.GPU(duration=duration)
    return _generator(function, lend) if isgeneratorfunction(function) else _plain(function, lend)


def gpu_seconds(text: object, takes: float = 1) -> int:
    """The seconds of GPU to request, to generate `text` that many times; a value that is no text needs none. More than
    `LONGEST_SECONDS` are not lent: of a text that takes longer the call is cut off."""
    spoken = normalise(text[:MAX_CHARACTERS]) if isinstance(text, str) else ""
    characters = min(len(spoken), MAX_SPOKEN_CHARACTERS)
    work = takes * characters * SECONDS_PER_CHARACTER * WORK_PER_SECOND
    return min(LONGEST_SECONDS, STARTING_SECONDS + ceil(work))


def _generator(function: Callable, lend: Callable) -> Callable:
    def there(*arguments: object) -> Iterator[object]:
        try:
            yield from function(*arguments)
        except PCGError as error:
            yield _Refused(str(error))

    lent = lend(there)

    @wraps(function)
    def here(*arguments: object) -> Iterator[object]:
        with closing(lent(*arguments)) as steps:
            yield from map(_unless_refused, steps)

    return here


def _plain(function: Callable, lend: Callable) -> Callable:
    def there(*arguments: object) -> object:
        try:
            return function(*arguments)
        except PCGError as error:
            return _Refused(str(error))

    lent = lend(there)

    @wraps(function)
    def here(*arguments: object) -> object:
        return _unless_refused(lent(*arguments))

    return here


def _unless_refused(result: object) -> object:
    if isinstance(result, _Refused):
        raise PCGError(result.sentence)
    return result
