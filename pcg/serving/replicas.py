"""One service of many: Ray Serve keeps replicas of a `SpeechService`, here or on a cluster; each take goes to one of them."""

import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from anyio import CapacityLimiter, to_thread

from pcg.cluster import cluster
from pcg.errors import PCGError
from pcg.serving.protection import LIMITS
from pcg.serving.speech_service import ROWS, Lost, Offer, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Round, Sound, Take

ADMITTED = 2 * ROWS
"""Takes at one replica: a batch, and as many that wait, so that a free row is taken at once; others go to any replica."""
LOST = "The replica that spoke this take is gone: ask again, and another one answers."
QUIET = {"log_level": "WARNING", "enable_access_log": False}


class Replicas:
    """A `SpeechService` to its callers: `count` replicas of one voice, which Ray knows by the name `app`.

    It joins Ray as `pcg.cluster` does; on other machines this project and the model lie at the same path. Raises PCGError
    without ray, and for a voice that cannot be loaded.
    """

    def __init__(
        self,
        count: int,
        model: str,
        device: str = "cpu",
        draft: str = "auto",
        precision: str = "auto",
        app: str = "pcg",
        exact_only: bool = False,
    ) -> None:
        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # that a replica is gone is told to its clients
        with ExitStack() as ends:
            ray = ends.enter_context(cluster("serve", "replicas", count, device))
            ray.serve.start(proxy_location="Disabled", logging_config=QUIET)
            resources = {"num_cpus": 1, "num_gpus": int(device == "cuda")}
            options = {"num_replicas": count, "max_ongoing_requests": ADMITTED, "ray_actor_options": resources}
            deployment = ray.serve.deployment(Replica, logging_config=QUIET, **options)
            where = str(Path(model).resolve()) if Path(model).is_dir() else model
            ends.callback(ray.serve.delete, app)  # which is there in part, where the next lines fail
            bound = deployment.bind(where, device, draft, precision, exact_only)
            self._handle = ray.serve.run(bound, name=app, route_prefix=None)
            offer = self._handle.offer.remote().result()
            if isinstance(offer, PCGError):
                raise offer
            self._ends = ends.pop_all()
        self.offer = replace(offer, rows=count * offer.rows)

    def speak(self, text: str, settings: Settings, voice: str, *, stream: bool = False) -> "FarSpeech":
        """Speak as `SpeechService.speak`, without rounds; the first step raises errors of text and voice."""
        return FarSpeech(self._handle.options(stream=True).speak.remote(text, settings, voice, stream))

    def close(self) -> None:
        """End the replicas, once; a cluster of others goes on."""
        self._ends.close()


class FarSpeech:
    """One take that a replica speaks: an iterator of Sounds, with the Take last."""

    def __init__(self, steps: Iterator[Sound | Take | PCGError]) -> None:
        self._steps = steps

    def __next__(self) -> Sound | Take:
        from ray.exceptions import RayError, RayTaskError
        from ray.serve.exceptions import RayServeException

        try:
            step = next(self._steps)
        except RayTaskError:  # an unexpected error of the replica, which another one would raise, too
            raise
        except (RayError, RayServeException) as error:
            raise Lost(LOST) from error
        if isinstance(step, PCGError):
            raise step
        return step

    def close(self) -> None:
        """Cancel the take, from any thread."""
        self._steps.cancel()


class Replica:
    """The actor that Ray starts, and starts again when it died: one voice and its thread, on one core or one GPU."""

    def __init__(self, model: str, device: str, draft: str, precision: str, exact_only: bool) -> None:
        torch.set_num_threads(1)
        if device == "cpu" and hasattr(os, "sched_setaffinity"):
            # Ray counts one core for a replica, but decoding and codec would take two, from the next replica.
            from ray import serve

            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[serve.get_replica_context().rank.local_rank % len(cores)]})
        self._threads, self._service = CapacityLimiter(ADMITTED), None
        try:
            voice = load_voice(model, device, draft, precision)
            synthesizer = Synthesizer(voice, longest_seconds=LIMITS.job_seconds, exact_only=exact_only)
            synthesizer.warm_up()
            self._service = SpeechService(synthesizer)
        except PCGError as error:  # raised here, Ray would start the replica again and again
            self._hindrance = error

    def offer(self) -> Offer | PCGError:
        """Return the abilities of the replica, or the error that keeps it from speaking."""
        return self._service.offer if self._service else self._hindrance

    async def speak(self, text: str, settings: Settings, voice: str, stream: bool) -> AsyncIterator[Sound | Take | PCGError]:
        """Pass the steps on; a PCGError is the last of them: raised, it would be a fault of the replica to Ray."""
        in_thread = partial(to_thread.run_sync, limiter=self._threads, abandon_on_cancel=True)
        try:
            begin = partial(self._service.speak, text, settings, voice, stream=stream)
            with closing(await in_thread(begin)) as speech:
                step = None
                while not isinstance(step, Take):
                    step = await in_thread(next, speech)
                    if not isinstance(step, Round):
                        yield step
        except PCGError as error:
            yield error
