"""Fifty visitors at once, each of whom gets its own take, also beside visitors who leave."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import soundfile
from gradio_client import Client

from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.raw import Raw
from tests.explorers.requests.conftest import Server

CLIENTS = 50
OTHERS = {"voice": "one", "theta": 0.3, "lookahead": 3, "beta": 0.3, "temperature": 0.6, "recording": None}
PATIENCE_SECONDS = 300
REQUESTS = 10


@pytest.mark.slow
def test_fifty_visitors_each_hear_their_own_take(address: str, synthesizer: Synthesizer) -> None:
    # A client gives a request five seconds, which a computer that does other work at the same time may not have.
    patient = {"timeout": PATIENCE_SECONDS}
    visitors = [Client(address, verbose=False, httpx_kwargs=patient) for _ in range(CLIENTS)]
    texts = [f"Visitor number {number} speaks." for number in range(CLIENTS)]
    jobs = [
        visitor.submit(text=text, seed=seed, api_name="/generate_pcg", **OTHERS)
        for seed, (visitor, text) in enumerate(zip(visitors, texts, strict=True))
    ]
    with ThreadPoolExecutor(CLIENTS) as waiting:
        answers = list(waiting.map(lambda job: job.result(PATIENCE_SECONDS), jobs))
    for seed, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        take = synthesizer.take(text, Settings(theta=0.3, temperature=OTHERS["temperature"], seed=seed), "one")
        sounds = [path for path in answer[1::3] if isinstance(path, str) and path.endswith(".wav")]
        assert len(sounds) == (len(take.audio) > 0)  # babble may end before it begins
        for sound in sounds:
            samples, _ = soundfile.read(sound)
            assert samples == pytest.approx(take.audio, abs=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process's memory")
def test_five_hundred_requests_with_leavers_and_reloads_lose_nothing_and_keep_nothing(server: Server) -> None:
    """Every third request is left before it is answered, by a page that its visitor has reloaded since."""

    def visit(visitor: int, requests: int = REQUESTS) -> int:
        page, session, wrong = Raw(server.address), f"visitor{visitor}", 0
        for number in range(requests):
            labels = [component["props"].get("label") for component in page.inputs("generate_pcg")]
            wanted = {"Text": f"Visitor {visitor}.", "Voice": "one", "Seed": number, "Theta": 0.3}
            values = [wanted.get(label, usual) for label, usual in zip(labels, page.usual("generate_pcg"), strict=True)]
            if number % 3 == 2:
                assert page.join("generate_pcg", values, None, f"{session}left{number}").status_code == 200
                page = Raw(server.address)
                continue
            ask_until_there_is_room(page, "generate_pcg", values, session)
            _, stored, *_ = ask_until_there_is_room(page, "take_settings", page.usual("take_settings"), session)
            said = json.loads(stored)
            wrong += (said["text"], said["settings"]["seed"]) != (f"Visitor {visitor}.", number)
        return wrong

    with ThreadPoolExecutor(CLIENTS) as visitors:
        assert sum(visitors.map(partial(visit, requests=3), range(CLIENTS))) == 0
        early = server.resident_at_rest()
        assert sum(visitors.map(visit, range(CLIENTS))) == 0
    assert server.resident_at_rest() < 1.10 * early


def ask_until_there_is_room(page: Raw, name: str, values: list[object], session: str) -> object:
    """What the page answers, once it no longer asks to try again in a moment."""
    while (answer := page.ask(name, values, session=session)).told:
        assert "Try again in a moment" in answer.told, answer.told
        time.sleep(1)
    return answer.data
