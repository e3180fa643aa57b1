"""The whole page over a LLaSA, as a program sees it: compare, map, swap, and what it says of its voice."""

import json
from collections.abc import Iterator

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from app import build_page
from explorers.theme import launch_options
from pcg.settings import METHODS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.llasa import OWN_VOICE
from tests.explorers.served import serve_clients

pytestmark = pytest.mark.slow

CODES = 65_536


@pytest.fixture(scope="module")
def client(llasa: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The page as `app.py --model FOLDER` makes it, but for the recogniser."""
    app = build_page(llasa, recogniser=tmp_path_factory.mktemp("none") / "recogniser")
    yield from serve_clients(app, **launch_options())


def test_the_page_says_whose_voice_it_is_and_begins_without_takes(client: Client) -> None:
    shown = str(client.config["components"])
    assert "CC BY-NC 4.0" in shown
    assert "1 to 15 seconds of one speaker" in shown
    parameters = client.view_api(return_format="dict")["named_endpoints"]["/generate"]["parameters"]
    assert {p["parameter_name"]: p["parameter_default"] for p in parameters}["voice"] == OWN_VOICE
    with pytest.raises(AppError, match="There is no take yet"):
        client.predict(api_name="/swap")


def test_four_takes_a_swap_and_the_groups_of_every_code(client: Client) -> None:
    answer = client.predict(text="Hi.", theta=0.4, recording=None, api_name="/generate")
    state = json.loads((answer[0].get("value") or answer[0])["state"])
    assert [lane["key"] for lane in state["lanes"]] == list(METHODS)
    assert all(lane["seconds"] > 0 for lane in state["lanes"])
    found = client.predict(theta=0.4, api_name="/swap")[0]
    assert (found["text"], found["voice"], set(found["versions"])) == ("Hi.", OWN_VOICE, {"original", "swapped", "control"})
    assert client.predict(token=16, theta=0.4, api_name="/token_group")["size"] > 1
    assert client.predict(token=CODES - 1, theta=0.4, api_name="/token_group")["size"] == 1
    with pytest.raises(AppError, match="65535"):
        client.predict(token=CODES, theta=0.4, api_name="/token_group")
