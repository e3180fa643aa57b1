"""pcg serve: OpenAI's speech endpoint, with every request in one running batch."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import add_model, load_synthesizer
from pcg.errors import InputError

if TYPE_CHECKING:
    from pcg.cli.common import Commands

PORTS = (0, 65_535)


def add(commands: "Commands") -> None:
    parser = commands.add_parser("serve", help="answer OpenAI's speech endpoint over HTTP")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this computer only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default 8000; 0: a free one)")
    parser.add_argument("--api-key", help="what clients have to send (default: PCG_API_KEY, or nothing)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="a name that it answers to")
    add_model(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    import uvicorn

    from pcg.models.hub import model_name
    from pcg.serving.limits import LIMITS
    from pcg.serving.openai_api import create_api
    from pcg.serving.speech_service import SpeechService

    low, high = PORTS
    if not low <= options.port <= high:
        raise InputError("port", options.port, f"a number from {low} to {high}")
    synthesizer = load_synthesizer(options.model, options.device, draft=options.draft)
    synthesizer.longest_seconds = LIMITS.job_seconds
    synthesizer.warm_up()
    service = SpeechService(synthesizer)
    key = options.api_key or os.environ.get("PCG_API_KEY") or None
    api = create_api(service, model_name(Path(options.model)), key, tuple(options.allow_host))
    print(f"Serving {options.model} on http://{options.host}:{options.port}/v1", file=sys.stderr)
    uvicorn.run(api, host=options.host, port=options.port, log_level="warning")
