"""A GPU that is lent by the call: nothing anywhere else, and where it is, across a process with the same sentences."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, wraps
from inspect import isgeneratorfunction
from pathlib import Path

import gradio as gr
import pytest

from explorers import zero_gpu as zero
from explorers.listen.actions import Request, Speaker, generate
from explorers.session import Session
from explorers.zero_gpu import LONGEST_SECONDS, gpu_seconds, is_lent, on_gpu
from pcg.audio import write_wav
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from pcg.text.prompt import Reference

SETTINGS = Settings("pcg", theta=0.3, lookahead=3, beta=0.3, temperature=0.6, seed=7)
REQUEST = Request("Hello, yes.", "two", SETTINGS, "pcg")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A Space that lends: what it lends to gets copies and gives copies back. The seconds that were asked for."""
    seconds: list[int] = []

    def lend(duration: Callable[..., int], size: str) -> Callable:
        assert size == "large"  # half a GPU: a whole one costs twice the quota

        def decorate(function: Callable) -> Callable:
            @wraps(function)
            def steps(*arguments: object) -> Iterator[object]:
                seconds.append(duration(*arguments))
                for result in function(*_copy(arguments)):
                    yield _copy(result)

            @wraps(function)
            def once(*arguments: object) -> object:
                seconds.append(duration(*arguments))
                return _copy(function(*_copy(arguments)))

            return steps if isgeneratorfunction(function) else once

        return decorate

    monkeypatch.setattr(zero.Config, "zero_gpu", True)
    monkeypatch.setattr(zero.spaces, "GPU", lend)
    return seconds


def _copy(value: object) -> object:
    return pickle.loads(pickle.dumps(value))


def count(to: int) -> Iterator[int]:
    """Counts."""
    if to > 3:
        raise InputError("to", to, "at most 3")
    yield from range(to)


def test_nothing_happens_where_nothing_is_lent() -> None:
    assert not is_lent()
    assert on_gpu(count, lambda to: 1 / 0) is count


def test_what_is_lent_to_does_the_same_and_a_refusal_keeps_its_sentence(asked: list[int]) -> None:
    counting, summing = on_gpu(count, lambda to: 10 + to), on_gpu(lambda to: sum(count(to)), lambda to: 20)
    assert (list(counting(3)), summing(3), asked) == ([0, 1, 2], 3, [13, 20])
    for calling in (summing, lambda to: list(counting(to))):
        with pytest.raises(gr.Error, match=r"To must be at most 3\."):
            calling(4)


def test_the_seconds_grow_with_text_and_takes_up_to_what_is_lent() -> None:
    asked = [gpu_seconds("x" * length, takes) for length, takes in ((0, 1), (100, 1), (100, 2), (5_000, 1))]
    assert asked == [15, 24, 33, LONGEST_SECONDS]


def test_takes_cross_to_the_gpu_and_back(asked: list[int], synthesizer: Synthesizer, tmp_path: Path) -> None:
    speaker = Speaker(synthesizer, partial(_keep, tmp_path))
    lent = on_gpu(partial(generate, speaker), lambda request, session: gpu_seconds(request.text, 2))
    *_, last = lent(REQUEST, Session())
    alone = synthesizer.take(REQUEST.text, SETTINGS, "two")
    assert last.session.cards["pcg"].take.tokens == alone.tokens
    assert asked == [gpu_seconds(REQUEST.text, 2)]
    with pytest.raises(gr.Error, match="Voice must be "):
        list(lent(replace(REQUEST, voice="nobody"), Session()))


def _keep(folder: Path, take: Take, reference: Reference | None) -> Path:
    write_wav(folder / "take.wav", take.audio, take.sample_rate)
    return folder / "take.wav"
