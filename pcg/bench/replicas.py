"""What a second replica gives: requests a second over HTTP from one replica and from several, by turns in one run; and how
soon a lone client hears something."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from statistics import median
from threading import Thread

import uvicorn

from pcg.bench.engine import TEXT
from pcg.cluster import check_room, import_ray, join
from pcg.errors import PCGError
from pcg.serving.openai_api import create_api
from pcg.serving.replicas import Replicas

REQUESTS_EACH = 3
"""Of a client in a run: the rate counts while all of them are there and some takes are done."""
LONE_TAKES = 5
"""One after another, before each run: those whose first sound is timed with nobody else there."""
PIECE = 1 << 20
"""Bytes; more than any piece of a stream has."""


@dataclass(frozen=True)
class Door:
    """Where a server answers, which model it names, and with whose voice it is to speak."""

    port: int
    voice: str
    model: str = "bench"


@dataclass(frozen=True)
class Throughput:
    """Requests a second from one replica and from `replicas`, medians over the runs; `ratio` is the median of `ratios`, one a
    run. Seconds until a client heard its first sound: medians; first_sound_alone: of one client alone, from one replica."""

    replicas: int
    clients: int
    one: float
    many: float
    ratio: float
    ratios: tuple[float, ...]
    first_sound_of_one: float
    first_sound_of_many: float
    first_sound_alone: float

    def __str__(self) -> str:
        return (
            f"{self.clients} clients: {self.one:.2f} requests/s from one replica, {self.many:.2f} from {self.replicas}, "
            f"{self.ratio:.2f} x; first sound after {self.first_sound_of_one:.2f} s and {self.first_sound_of_many:.2f} s, "
            f"for a lone client after {self.first_sound_alone:.2f} s"
        )


@dataclass(frozen=True)
class Heard:
    """When a client asked, and the time and the bytes of each piece that it got."""

    begun: float
    pieces: tuple[tuple[float, int], ...]

    @property
    def first_sound(self) -> float:
        return self.pieces[0][0] - self.begun

    @property
    def ended(self) -> float:
        return self.pieces[-1][0]

    def share(self, start: float, end: float) -> float:
        """Of its bytes, those that came between the two times."""
        return sum(size for at, size in self.pieces if start < at <= end) / sum(size for _, size in self.pieces)


def bench_replicas(voice: tuple[str, str, str, str], replicas: int, clients: int, repeats: int) -> dict[str, object]:
    """Print and return the figures of a `Throughput`. voice: model, device, draft and precision, as `load_voice` takes them.

    Both servers are up all the time, and the idle one does nothing. In what order they are asked, and the clients ask for their
    takes, is drawn for each run.
    """
    ray, found, lone = import_ray("serve"), {1: [], replicas: []}, []
    ours = join(ray, cores=1 + replicas)
    try:
        check_room(ray.cluster_resources(), "replicas and the one beside them", 1 + replicas, 1, voice[1])
        with (
            _served(Replicas(1, *voice, "bench-one"), clients) as one,
            _served(Replicas(replicas, *voice, "bench-many"), clients) as many,
        ):
            doors = {1: one, replicas: many}
            for count, door in doors.items():
                _hear(door, range(count * clients), clients)  # so that every replica has been asked
            for run in range(repeats):
                drawn = random.Random(run)
                lone += hear_alone(one)
                seeds = drawn.sample(range(REQUESTS_EACH * clients), REQUESTS_EACH * clients)
                for count in drawn.sample(list(doors), 2):
                    found[count].append(_hear(doors[count], seeds, clients))
    finally:
        if ours:
            ray.shutdown()
    throughput = _compare(found[1], found[replicas], lone, replicas, clients)
    print(throughput, flush=True)
    return asdict(throughput)


def hear_alone(door: Door) -> list[Heard]:
    """One client, streamed, one take after another."""
    return [_ask(door, seed) for seed in range(LONE_TAKES)]


def requests_per_second(heard: Sequence[Heard], clients: int) -> float:
    """While all clients are there: from when as many takes as there are clients are done until a client finds no more to ask
    for. A take that began before or ended later counts by its share of sound."""
    ends = sorted(each.ended for each in heard)
    start, end = ends[clients - 1], ends[-clients]
    return sum(each.share(start, end) for each in heard) / (end - start)


def _compare(
    one: Sequence[Sequence[Heard]], many: Sequence[Sequence[Heard]], lone: Sequence[Heard], replicas: int, clients: int
) -> Throughput:
    rates, more = ([requests_per_second(heard, clients) for heard in runs] for runs in (one, many))
    sounds = (median(each.first_sound for heard in runs for each in heard) for runs in (one, many, [lone]))
    ratios = tuple(round(b / a, 4) for a, b in zip(rates, more, strict=True))
    figures = (round(value, 4) for value in (median(rates), median(more), median(ratios)))
    return Throughput(replicas, clients, *figures, ratios, *(round(value, 4) for value in sounds))


@contextmanager
def _served(replicas: Replicas, clients: int) -> Iterator[Door]:
    """They end with the server."""
    api = create_api(replicas, "bench", in_flight=clients)
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=0, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield Door(server.servers[0].sockets[0].getsockname()[1], replicas.offer.voices[0])
    finally:
        server.should_exit = True
        thread.join()


def _hear(door: Door, seeds: Sequence[int], clients: int) -> list[Heard]:
    """Whichever client is free asks for the next take."""
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda seed: _ask(door, seed), seeds))


def _ask(door: Door, seed: int) -> Heard:
    wish = {"model": door.model, "input": TEXT, "voice": door.voice, "response_format": "wav", "seed": seed}
    with closing(HTTPConnection("127.0.0.1", door.port)) as server:
        begun = time.perf_counter()
        server.request("POST", "/v1/audio/speech", json.dumps(wish))
        answer = server.getresponse()
        if answer.status != 200:
            raise PCGError(json.load(answer)["error"]["message"])
        pieces = iter(lambda: answer.read1(PIECE), b"")
        return Heard(begun, tuple((time.perf_counter(), len(piece)) for piece in pieces))
