"""pcg serve: OpenAI's speech endpoint, with every request in one running batch."""

import argparse
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import add_model, check_count, load_synthesizer
from pcg.errors import InputError

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.serving.replicas import Replicas
    from pcg.serving.speech_service import SpeechService

PORTS = (0, 65_535)
REPLICAS = 2


def add(commands: "Commands") -> None:
    parser = commands.add_parser("serve", help="answer OpenAI's speech endpoint over HTTP")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this computer only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default 8000; 0: a free one)")
    parser.add_argument("--api-key", help="what clients have to send (default: PCG_API_KEY, or nothing)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="a name that it answers to")
    parser.add_argument(
        "--in-flight",
        type=int,
        metavar="N",
        help="requests of one address at once (default: as many as are spoken at once, and as many again that wait)",
    )
    parser.add_argument("--ray", action="store_true", help="with replicas, here or on the cluster of RAY_ADDRESS")
    parser.add_argument(
        "--replicas", type=int, metavar="N", help=f"of --ray, each with a model, on a core or a GPU (default {REPLICAS})"
    )
    add_model(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    import uvicorn

    from pcg.models.hub import model_name
    from pcg.serving.openai_api import create_api

    low, high = PORTS
    if not low <= options.port <= high:
        raise InputError("port", options.port, f"a number from {low} to {high}")
    if options.in_flight is not None:
        check_count("in-flight", options.in_flight)
    if options.replicas is not None:
        check_count("replicas", options.replicas)
        if not options.ray:
            raise InputError("replicas", options.replicas, "left out without --ray")
    service = _replicas(options) if options.ray else _service(options)
    key = options.api_key or os.environ.get("PCG_API_KEY") or None
    name, hosts = model_name(Path(options.model)), tuple(options.allow_host)
    api = create_api(service, name, key, hosts, in_flight=options.in_flight)
    config = uvicorn.Config(api, host=options.host, port=options.port, log_level="warning")
    door = config.bind_socket()
    print(f"Serving {options.model} on http://{options.host}:{door.getsockname()[1]}/v1", file=sys.stderr)
    uvicorn.Server(config).run(sockets=[door])


def _service(options: argparse.Namespace) -> "SpeechService":
    from pcg.serving.limits import LIMITS
    from pcg.serving.speech_service import SpeechService

    synthesizer = load_synthesizer(options)
    synthesizer.longest_seconds = LIMITS.job_seconds
    synthesizer.warm_up()
    return SpeechService(synthesizer)


def _replicas(options: argparse.Namespace) -> "Replicas":
    """Each server on a cluster has a name of its own there, which it has again when it is started anew."""
    from pcg.serving.replicas import Replicas

    name = f"pcg-{socket.gethostname()}-{options.port or os.getpid()}"
    voice = options.model, options.device, options.draft, options.precision
    replicas = Replicas(options.replicas or REPLICAS, *voice, name)
    if replicas.offer.notice:
        print(replicas.offer.notice, file=sys.stderr)
    return replicas
