"""The page as a program sees it: its endpoints, what they answer, and how they refuse."""

import time

import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.session import CARDS
from pcg.decode.running_batch import RunningBatch
from pcg.serving.job import Job
from pcg.serving.speech_service import SpeechService
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer

ARGUMENTS = {
    "text": "Hello, is this one sentence?",
    "voice": "one",
    "theta": 0.3,
    "lookahead": 3,
    "beta": 0.3,
    "temperature": 0.8,
    "seed": 5,
    "recording": None,
    "transcript": "",
    "consent": False,
    "similarity": "cosine",
    "takes": 1,
    "preset": "",
    "adaptive": False,
    "sampler": "plain",
    "top_k": 0,
    "top_p": 0,
    "verification": "token",
    "lookahead_cost": 0,
}
SPOKEN = 3 * len(CARDS)


@pytest.fixture(scope="module")
def client(address: str) -> Client:
    return Client(address, verbose=False)


def test_the_endpoints_have_names_and_named_arguments(client: Client) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    expected = {"/generate", "/generate_pcg", "/generate_ssd", "/groups", "/new_seed", "/judge_takes", "/save_takes"}
    expected |= {"/generate_one", "/measure_bound"}
    expected |= {f"/show_{key}_take" for key in CARDS}
    assert expected <= set(endpoints)
    assert [p["parameter_name"] for p in endpoints["/generate"]["parameters"]] == list(ARGUMENTS)


def test_four_takes_come_back_the_same_as_from_the_engine(client: Client, synthesizer: Synthesizer) -> None:
    heard = {}
    for outputs in client.submit(api_name="/generate", **ARGUMENTS):
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
    *_, outputs = client.submit(api_name="/generate_ssd", **ARGUMENTS)
    assert "SSD in" in outputs[0]
    assert "SSD took" in outputs[9]


@pytest.mark.parametrize("method", ["sd", "ssd", "pcg"])
def test_block_verification_and_a_lookahead_cost_are_those_of_the_engine(
    client: Client, synthesizer: Synthesizer, method: str
) -> None:
    asked = {"method": method, "verification": "block", "lookahead_cost": 0.25, "lookahead": 6}
    *_, outputs = client.submit(api_name="/generate_one", **(ARGUMENTS | asked))
    found = outputs[-1]["cards"][method]["takes"][0]
    settings = Settings("pcg", 0.3, 6, seed=5, verification="block", lookahead_cost=0.25).for_method(method)
    assert found["settings"] == settings.as_dict()
    assert found["tokens"] == len(synthesizer.take(ARGUMENTS["text"], settings, "one").tokens)


def test_one_method_is_generated_with_every_setting_and_its_bound_is_measured(client: Client, synthesizer: Synthesizer) -> None:
    asked = {"method": "sd", "sampler": "ras", "top_k": 20, "lookahead": 2}
    *_, outputs = client.submit(api_name="/generate_one", **(ARGUMENTS | asked))
    assert "SD in" in outputs[0]
    take = synthesizer.take(ARGUMENTS["text"], Settings("sd", lookahead=2, seed=5, sampler="ras", top_k=20), "one")
    assert outputs[-1]["cards"]["sd"]["takes"][0]["tokens"] == len(take.tokens)
    answer = client.predict("sd", api_name="/measure_bound")
    record = next(each for each in answer if isinstance(each, dict) and "bound" in each)
    assert record["bound"] > 0
    assert record["tokens"] == list(take.tokens)
    with pytest.raises(AppError, match="method is"):
        client.predict(api_name="/generate_one", **(ARGUMENTS | {"method": "magic"}))


@pytest.mark.parametrize(
    ("endpoint", "change", "sentence"),
    [
        ("/generate", {"text": " "}, "Type an English text first."),
        ("/generate_pcg", {"seed": -1}, "seed is -1, but must be"),
        ("/generate_pcg", {"lookahead_cost": 2}, "lookahead_cost is 2, but must be"),
        ("/generate", {"text": "<b>漢字漢字</b>"}, "text is '&lt;b&gt;漢字漢字&lt;/b&gt;', but must be English text"),
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
    for outputs in client.submit(api_name="/generate_pcg", **(ARGUMENTS | {"text": hostile})):
        html = [o for o in (outputs[0], *outputs[2 : 1 + SPOKEN : 3], *outputs[3 : 1 + SPOKEN : 3]) if isinstance(o, str)]
        assert not any("hacked" in piece or "$" in piece for piece in html)


def test_theta_and_dice(client: Client) -> None:
    assert "At theta 0.60" in client.predict(0.6, api_name="/groups")
    assert client.predict(0.6, "fsq", api_name="/groups") != client.predict(0.6, "cosine", api_name="/groups")
    assert 0 <= client.predict(api_name="/new_seed") < 10_000
    with pytest.raises(AppError):
        client.predict(9, api_name="/groups")


def test_a_cancelled_run_frees_the_engine(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    left: dict[Job, SpeechService] = {}
    leave, step = SpeechService.leave, RunningBatch.step

    def noted(service: SpeechService, job: Job) -> None:
        leave(service, job)
        left[job] = service

    def slow(batch: RunningBatch, only: int | None = None) -> dict[int, object]:
        time.sleep(0.1)
        return step(batch, only)

    monkeypatch.setattr(SpeechService, "leave", noted)
    monkeypatch.setattr(RunningBatch, "step", slow)
    job = client.submit(api_name="/generate", **ARGUMENTS)
    next(iter(job))
    job.cancel()
    deadline = time.monotonic() + 10
    while not left and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    (service,) = left.values()  # of one take out of five
    assert (service.speaking, service.waiting) == (0, 0)
