"""pcg serve: OpenAI's speech endpoint, with every request in one running batch."""

import argparse
import errno
import os
import socket
import sys
from contextlib import closing
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
    from pcg.serving.openai import create_api
    from pcg.serving.protection import LIMITS

    low, high = PORTS
    if not low <= options.port <= high:
        raise InputError("port", options.port, f"a number from {low} to {high}")
    if options.in_flight is not None:
        check_count("in-flight", options.in_flight)
    if options.replicas is not None:
        check_count("replicas", options.replicas)
        if not options.ray:
            raise InputError("replicas", options.replicas, "left out without --ray")
    key = options.api_key or os.environ.get("PCG_API_KEY") or None
    name, hosts = model_name(Path(options.model)), tuple(options.allow_host)
    with (
        closing(_door(options.host, options.port)) as door,
        closing(_replicas(options, door) if options.ray else _service(options)) as service,
    ):
        api = create_api(service, name, key, hosts, in_flight=options.in_flight, alias=options.model)
        config = uvicorn.Config(api, log_level="warning", timeout_graceful_shutdown=LIMITS.stop_seconds)
        print(f"Serving {options.model} on http://{options.host}:{door.getsockname()[1]}/v1", file=sys.stderr)
        uvicorn.Server(config).run(sockets=[door])


def _door(host: str, port: int) -> socket.socket:
    """It listens before anything is loaded, so that a port that is taken costs nothing, and nobody else takes it meanwhile;
    who asks so early waits. Raises InputError."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InputError("port", port, f"one that is free on {host} and that you may open") from error
        raise InputError("host", host, "an address of this computer") from error


def _service(options: argparse.Namespace) -> "SpeechService":
    from pcg.serving.protection import LIMITS
    from pcg.serving.speech_service import SpeechService

    synthesizer = load_synthesizer(options)
    synthesizer.longest_seconds = LIMITS.job_seconds
    synthesizer.warm_up()
    return SpeechService(synthesizer)


def _replicas(options: argparse.Namespace, door: socket.socket) -> "Replicas":
    """Each server on a cluster has a name of its own there, which it has again when it is started anew."""
    from pcg.serving.replicas import Replicas

    address, port = door.getsockname()[:2]
    name = f"pcg-{socket.gethostname()}-{address.replace(':', '.')}-{port}"
    voice = options.model, options.device, options.draft, options.precision
    replicas = Replicas(options.replicas or REPLICAS, *voice, name)
    if replicas.offer.notice:
        print(replicas.offer.notice, file=sys.stderr)
    return replicas
