"""The speech endpoint while a test asks it."""

import threading
import time
from collections.abc import Iterator

import uvicorn

from pcg.serving.openai import create_api


def serve(service: object, **options: object) -> Iterator[str]:
    """Yield where `service` speaks under the name "tiny"; it ends with the server."""
    api = create_api(service, "tiny", **options)
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
