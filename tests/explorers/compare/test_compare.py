"""The page as a program sees it: its endpoints, what they answer, and how they refuse."""

import time

import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.session import CARDS
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer

ARGUMENTS = {
    "text": "Hello, is this one sentence?",
    "voice": "one",
    "theta": 0.3,
    "lookahead": 3,
    "beta": 0.3,
    "temperature": 0.6,
    "seed": 5,
    "recording": None,
    "transcript": "",
    "consent": False,
    "similarity": "cosine",
    "takes": 1,
    "preset": "",
}
SPOKEN = 3 * len(CARDS)


@pytest.fixture(scope="module")
def client(address: str) -> Client:
    return Client(address, verbose=False)


def test_the_endpoints_have_names_and_named_arguments(client: Client) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    expected = {"/say_four_ways", "/say_pcg_again", "/say_ssd_again", "/groups", "/new_seed", "/judge_takes", "/save_takes"}
    expected |= {f"/show_{key}_take" for key in CARDS}
    assert expected <= set(endpoints)
    assert [p["parameter_name"] for p in endpoints["/say_four_ways"]["parameters"]] == list(ARGUMENTS)


def test_four_takes_come_back_the_same_as_from_the_engine(client: Client, synthesizer: Synthesizer) -> None:
    heard = {}
    for outputs in client.submit(api_name="/say_four_ways", **ARGUMENTS):
        sounds = dict(zip(CARDS, outputs[1 : 1 + SPOKEN : 3], strict=True))
        heard |= {method: path for method, path in sounds.items() if isinstance(path, str)}
    assert tuple(heard) == METHODS
    for method, path in heard.items():
        take = synthesizer.take(ARGUMENTS["text"], Settings(method, theta=0.3, seed=5), "one")
        samples, rate = soundfile.read(path)
        assert rate == take.sample_rate
        # 16 bits, and the codec's own sums: the server's threads may share its work out in another way.
        assert samples == pytest.approx(take.audio, abs=3e-4)


def test_a_knob_answers_with_its_card_alone(client: Client) -> None:
    *_, outputs = client.submit(api_name="/say_ssd_again", **ARGUMENTS)
    assert "SSD in" in outputs[0]
    assert "SSD took" in outputs[9]


@pytest.mark.parametrize(
    ("endpoint", "change", "sentence"),
    [
        ("/say_four_ways", {"text": " "}, "text is ' ', but must be some English text."),
        ("/say_pcg_again", {"seed": -1}, "seed is -1, but must be"),
        ("/say_four_ways", {"text": "<b>漢字漢字</b>"}, "text is '&lt;b&gt;漢字漢字&lt;/b&gt;', but must be English text"),
    ],
)
def test_errors_reach_the_client_as_the_sentence(
    endpoint: str, change: dict[str, object], sentence: str, client: Client
) -> None:
    with pytest.raises(AppError) as refused:
        client.predict(api_name=endpoint, **(ARGUMENTS | change))
    assert sentence in str(refused.value)


def test_no_answer_holds_the_text_as_html(client: Client) -> None:
    hostile = "<script>${window.hacked = 1}</script> hello, this is one sentence"
    for outputs in client.submit(api_name="/say_pcg_again", **(ARGUMENTS | {"text": hostile})):
        html = [o for o in (outputs[0], *outputs[2 : 1 + SPOKEN : 3], *outputs[3 : 1 + SPOKEN : 3]) if isinstance(o, str)]
        assert not any("hacked" in piece or "$" in piece for piece in html)


def test_theta_and_dice(client: Client) -> None:
    assert "At theta 0.60" in client.predict(0.6, api_name="/groups")
    assert client.predict(0.6, "fsq", api_name="/groups") != client.predict(0.6, "cosine", api_name="/groups")
    assert 0 <= client.predict(api_name="/new_seed") < 10_000
    with pytest.raises(AppError):
        client.predict(9, api_name="/groups")


def test_a_cancelled_run_frees_the_engine(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    speak = Synthesizer.speak

    def slow(*arguments: object):
        try:
            for event in speak(*arguments):
                time.sleep(0.05)
                yield event
        finally:
            closed.append(arguments[2].method)

    monkeypatch.setattr(Synthesizer, "speak", slow)
    job = client.submit(api_name="/say_four_ways", **ARGUMENTS)
    next(iter(job))
    job.cancel()
    deadline = time.monotonic() + 10
    while not closed and time.monotonic() < deadline:
        time.sleep(0.05)
    assert closed == ["ar"]
