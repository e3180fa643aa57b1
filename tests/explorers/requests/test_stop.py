"""Whoever stops the page while it works ends it in order."""

import signal
import time
from pathlib import Path

import pytest
from gradio_client import Client

from tests.explorers.requests.conftest import PATIENCE_SECONDS, started

pytestmark = pytest.mark.slow

ROUNDS = 2
"""A thread that is in compiled code at the wrong moment does not come by each time."""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_page_that_is_stopped_while_it_speaks_ends_in_order_and_leaves_nothing(
    how: signal.Signals, tiny_voice_folder: Path, tmp_path: Path
) -> None:
    for seconds in range(1, ROUNDS + 1):
        (tmp_path / "temporary").mkdir(exist_ok=True)
        server = started(tmp_path / "temporary", "--model", str(tiny_voice_folder))
        text = "hello, is this one sentence? yes! " * 140
        try:
            job = Client(server.address, verbose=False).submit(text=text, recording=None, api_name="/generate")
            time.sleep(seconds)
            assert not job.done(), job.exception()
            server.process.send_signal(how)
            assert server.process.wait(PATIENCE_SECONDS) in (0, 130)
        finally:
            server.process.kill()
        assert [path for path in server.temporary.rglob("*") if path.is_file()] == []
