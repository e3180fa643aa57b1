"""Fifty visitors at once: each gets its own take, and past the queue's bound a visitor is told so."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from app import QUEUE_LENGTH
from pcg.settings import Settings
from pcg.synthesizer import Synthesizer

CLIENTS = 50
OTHERS = {"voice": "one", "theta": 0.3, "lookahead": 3, "beta": 0.3, "temperature": 0.6, "recording": None}
PATIENCE_SECONDS = 300


def test_fifty_visitors_each_hear_their_own_take(address: str, synthesizer: Synthesizer) -> None:
    visitors = [Client(address, verbose=False) for _ in range(CLIENTS)]
    texts = [f"Visitor number {number} speaks." for number in range(CLIENTS)]
    jobs = [
        visitor.submit(text=text, seed=seed, api_name="/say_pcg_again", **OTHERS)
        for seed, (visitor, text) in enumerate(zip(visitors, texts, strict=True))
    ]
    with ThreadPoolExecutor(CLIENTS) as waiting:
        answers = list(waiting.map(lambda job: job.result(PATIENCE_SECONDS), jobs))
    for seed, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        take = synthesizer.take(text, Settings(theta=0.3, seed=seed), "one")
        sounds = [path for path in answer[1::3] if isinstance(path, str) and path.endswith(".wav")]
        assert len(sounds) == (len(take.audio) > 0)  # babble may end before it begins
        for sound in sounds:
            samples, _ = soundfile.read(sound)
            assert samples == pytest.approx(take.audio, abs=3e-4)


def test_past_the_queues_bound_a_visitor_is_told(address: str) -> None:
    visitor = Client(address, verbose=False)
    jobs = [visitor.submit(text=f"Number {n}.", seed=n, api_name="/say_four_ways", **OTHERS) for n in range(QUEUE_LENGTH + 20)]
    with ThreadPoolExecutor(len(jobs)) as waiting:
        ends = list(waiting.map(lambda job: job.exception(PATIENCE_SECONDS), jobs))
    refused = [end for end in ends if end is not None]
    assert 0 < len(refused) <= 20
    assert all(isinstance(end, AppError | ValueError) and "queue" in str(end).lower() for end in refused)
