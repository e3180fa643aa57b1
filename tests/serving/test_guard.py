"""Who may ask, by which name, for what; and what a browser is told."""

import re

import anyio
import pytest
from starlette.responses import PlainTextResponse

from pcg.serving.protection import Guard, current_visitor


async def tell_visitor(scope, receive, send):
    await PlainTextResponse(current_visitor())(scope, receive, send)


async def fail(scope, receive, send):
    raise OverflowError("a secret of the program")


def guard(app=tell_visitor, hosts=("pcg.example", "*.spaces.example")):
    return Guard(
        app, hosts, lambda error: f"Logged {type(error).__name__}.", re.compile("/|/open/.*"), ["https://frames.example"]
    )


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:7860", "lab.localhost", "127.0.0.1:7860", "[::1]:7860", "pcg.example", "a.spaces.example"]
)
def test_it_answers_to_its_own_names(ask, host):
    assert ask(guard())("GET", "/", headers={"host": host}).text == "10.0.0.1"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "spaces.example", "pcg.example.evil", "127.0.0.1.evil.example", "", "[::1", "127.0.0.1@evil.example"],
)
def test_it_answers_to_no_other_name(ask, host):
    answer = ask(guard())("GET", "/", headers={"host": host})
    assert answer.status_code == 421
    assert answer.json()["detail"].startswith("This server does not answer to the name ")


@pytest.mark.parametrize("path", ["/monitoring", "/open", "/x/open/a", "/gradio_api/vibe-code/"])
def test_what_is_not_open_is_not_there(ask, path):
    assert ask(guard())("GET", path).status_code == 404


def test_a_page_of_another_server_may_not_post(ask):
    sent = ask(guard())
    assert sent("POST", "/", headers={"origin": "https://evil.example"}).status_code == 403
    assert sent("POST", "/", headers={"origin": "null"}).status_code == 403
    assert sent("GET", "/", headers={"origin": "https://evil.example"}).status_code == 200
    assert sent("POST", "/", headers={"origin": "http://localhost"}).status_code == 200
    assert sent("POST", "/").status_code == 200
    proxied = {"origin": "https://pcg.example", "x-forwarded-host": "pcg.example"}
    assert sent("POST", "/", headers=proxied).status_code == 200


def test_a_browser_is_kept_on_this_server(ask):
    for path in ("/", "/nowhere"):
        headers = ask(guard())("GET", path).headers
        policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'self'"
        assert policy["frame-ancestors"] == "'self' https://frames.example"
        assert headers["x-content-type-options"] == "nosniff"


def test_an_exception_is_one_sentence(ask):
    answer = ask(guard(fail))("GET", "/")
    assert (answer.status_code, answer.json()) == (500, {"detail": "Logged OverflowError."})


def test_an_answer_that_fails_after_it_began_is_not_ended():
    async def break_off(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise OverflowError

    sent = []

    async def send(message):
        sent.append(message["type"])

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    anyio.run(guard(break_off), scope, None, send)
    assert sent == ["http.response.start"]
