"""The calls from another program in docs/api.md, as they stand there."""

import json
import re
import shutil
import subprocess

import httpx
import pytest
from gradio_client import Client

from pcg.places import PROJECT

DOCUMENT = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8")
PAGE = "http://127.0.0.1:7860"
PATIENCE_MS = 120_000


def test_the_call_works_as_it_is_printed(address: str) -> None:
    (example,) = re.findall(r"```python\n(import json\n\nfrom gradio_client .*?)```", DOCUMENT, re.DOTALL)
    assert PAGE in example
    names: dict[str, object] = {}
    exec(example.replace(PAGE, address.rstrip("/")), names)
    figures = names["lanes"]["ssd"]
    assert figures["text"] == "The morning sun was warm."
    assert "beta 0.2" in figures["knobs"]
    assert figures["calls"] > 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this computer")
def test_the_call_of_curl_works_as_it_is_printed(address: str) -> None:
    (example,) = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    assert PAGE in example
    called = subprocess.run(
        ["bash", "-c", example.replace(PAGE, address.rstrip("/"))], capture_output=True, text=True, timeout=60
    )
    (answer,) = re.findall(r"^data: (.*)$", called.stdout, re.MULTILINE)
    assert json.loads(answer)[0]["token"] == 17


def test_agents_call_by_names(address: str) -> None:
    told = httpx.get(address + "agents.md").text
    (call,) = re.findall(r"(http\S+/call/v2/token_group)", told)
    (body,) = re.findall(r"-d '(.*?)'", told)
    event = httpx.post(call, content=body, headers={"content-type": "application/json"}).json()["event_id"]
    answer = httpx.get(f"{call.replace('/v2', '')}/{event}").text
    (shown,) = re.findall(r"^data: (.*)$", answer, re.MULTILINE)
    assert (json.loads(shown)[0]["token"], json.loads(shown)[0]["theta"]) == (17, 0.4)
    refused = httpx.post(call, json={"token": 17, "nonsense": 1})
    assert (refused.status_code, list(refused.json())) == (422, ["detail"])
    assert httpx.post(call.replace("token_group", "nowhere"), json={}).status_code == 404


def test_every_endpoint_that_is_offered_is_named(address: str) -> None:
    """The page of the tests has no detectors, so no Spoof tab."""
    table = DOCUMENT.split("| tab | endpoints |")[1].split("\n\n")[0]
    named = {f"/{name}" for name in re.findall(r"`(\w+)`", table)}
    offered = list(Client(address, verbose=False).view_api(print_info=False, return_format="dict")["named_endpoints"])
    assert named - set(offered) <= {"/spoof"}
    assert [name for name in offered if name not in named] == []
    assert offered[0] == "/generate"
