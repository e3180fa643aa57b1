"""Fifty visitors at once, each of whom gets its own take."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import soundfile
from gradio_client import Client

from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

CLIENTS = 50
OTHERS = {"voice": "one", "theta": 0.3, "lookahead": 3, "beta": 0.3, "temperature": 0.6, "recording": None}
PATIENCE_SECONDS = 300


@pytest.mark.slow
def test_fifty_visitors_each_hear_their_own_take(address: str, synthesizer: Synthesizer) -> None:
    # A client gives a request five seconds, which a computer that does other work at the same time may not have.
    patient = {"timeout": PATIENCE_SECONDS}
    visitors = [Client(address, verbose=False, httpx_kwargs=patient) for _ in range(CLIENTS)]
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
