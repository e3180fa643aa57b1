"""One service of many: Ray Serve keeps replicas of a `SpeechService`, here or on a cluster; each take goes to one of them."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from anyio import CapacityLimiter, to_thread

from pcg.cluster import check_room, import_ray, join
from pcg.errors import PCGError, counted
from pcg.serving.protection import LIMITS
from pcg.serving.speech_service import ROWS, Busy, Lost, Offer, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Round, Sound, Take

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

AHEAD = ROWS
"""Takes that wait at a replica, so that a free row is taken at once; all others go to the first replica with room."""
LOST = "The replica that spoke this take is gone: ask again, and another one answers."


class Replicas:
    """What a `SpeechService` is to its callers, over `count` replicas of one voice, which Ray knows by the name `app`. Takes
    are counted here, so that the limits are those of all together. It joins Ray as `pcg.cluster.join` says; on other machines
    this project and the model lie at the same path. `close` ends the replicas. Raises PCGError without ray, and for a voice
    that cannot be loaded."""

    def __init__(
        self, count: int, model: str, device: str = "cpu", draft: str = "auto", precision: str = "auto", app: str = "pcg"
    ) -> None:
        self._ray, self._app = import_ray("serve"), app
        self._here, self._changed = 0, Lock()
        self._deployed = self._closed = False
        self._ours = join(self._ray)
        try:
            check_room(self._ray.cluster_resources(), "replicas", count, 1, device)
            where = str(Path(model).resolve()) if Path(model).is_dir() else model
            self._handle = self._start(count, device, (where, device, draft, precision))
            told = self._handle.offer.remote().result()
            if isinstance(told, PCGError):
                raise told
        except BaseException:
            self.close()
            raise
        self.offer = Offer(told.methods, told.voices, told.sample_rate, count * told.rows, told.notice)

    @property
    def waiting(self) -> int:
        """How many takes have no row yet, if every replica speaks as many as it can."""
        return max(0, self._here - self.offer.rows)

    @property
    def speaking(self) -> int:
        """How many takes have a row."""
        return min(self._here, self.offer.rows)

    def speak(self, text: str, settings: Settings, voice: str, *, stream: bool = False) -> "FarSpeech":
        """As `SpeechService.speak`, without the rounds, which are in the take; what is wrong with text or voice is told by the
        first step. Raises Busy where too many wait."""
        with self._changed:
            if self.waiting >= LIMITS.waiting:
                raise Busy(f"{counted(self.waiting, 'take')} are waiting already: try again a little later.")
            self._here += 1
        try:
            steps = self._handle.options(stream=True).speak.remote(text, settings, voice, stream)
        except BaseException:
            self._leave()
            raise
        return FarSpeech(steps, self._leave)

    def close(self) -> None:
        """A cluster of others, and what else they serve there, goes on; leaving it alone would not end the replicas. It may be
        done more than once."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._deployed:
                self._ray.serve.delete(self._app)
        finally:
            if self._ours:
                self._ray.shutdown()

    def _start(self, count: int, device: str, voice: tuple[str, ...]) -> "DeploymentHandle":
        serve, quiet = self._ray.serve, {"log_level": "WARNING", "enable_access_log": False}
        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # that a replica is gone is told to its clients
        serve.start(proxy_location="Disabled", logging_config=quiet)
        deployment = serve.deployment(
            Replica,
            num_replicas=count,
            max_ongoing_requests=ROWS + AHEAD,
            ray_actor_options={"num_cpus": 1, "num_gpus": int(device == "cuda")},
            logging_config=quiet,
        )
        self._deployed = True  # in part, where the next line fails
        return serve.run(deployment.bind(*voice), name=self._app, route_prefix=None)

    def _leave(self) -> None:
        with self._changed:
            self._here -= 1


class FarSpeech:
    """One take that a replica speaks: an iterator of Sounds, with the Take last. `close` gives it up, from any thread."""

    def __init__(self, steps: Iterator[Sound | Take | PCGError], leave: Callable[[], None]) -> None:
        self._steps, self._leave, self._left = steps, leave, Lock()

    def __iter__(self) -> "FarSpeech":
        return self

    def __next__(self) -> Sound | Take:
        from ray.exceptions import RayError, RayTaskError
        from ray.serve.exceptions import RayServeException

        try:
            step = next(self._steps)
        except RayTaskError:  # an unexpected error there, which would happen elsewhere too
            raise
        except (RayError, RayServeException) as error:
            raise Lost(LOST) from error
        if isinstance(step, PCGError):
            raise step
        return step

    def close(self) -> None:
        if self._left.acquire(blocking=False):
            self._leave()
            self._steps.cancel()


class Replica:
    """What Ray starts, and starts again when it died: one voice and its thread, on one core or one GPU."""

    def __init__(self, model: str, device: str, draft: str, precision: str) -> None:
        torch.set_num_threads(1)
        if device == "cpu":
            _keep_to_one_core()
        self._threads = CapacityLimiter(ROWS + AHEAD)
        self._service: SpeechService | None = None
        try:
            synthesizer = Synthesizer(load_voice(model, device, draft, precision), longest_seconds=LIMITS.job_seconds)
            synthesizer.warm_up()
            self._service = SpeechService(synthesizer)
        except PCGError as error:  # told to who asks: Ray would try again and again
            self._hindrance = error

    def offer(self) -> Offer | PCGError:
        return self._service.offer if self._service else self._hindrance

    async def speak(self, text: str, settings: Settings, voice: str, stream: bool) -> AsyncIterator[Sound | Take | PCGError]:
        """A PCGError is the last of the steps; raised, it would be a fault of the replica to Ray."""
        try:
            if self._service is None:
                raise self._hindrance
            begin = partial(self._service.speak, text, settings, voice, stream=stream)
            with closing(await self._in_thread(begin)) as speech:
                step = None
                while not isinstance(step, Take):
                    step = await self._in_thread(partial(next, speech))
                    if not isinstance(step, Round):
                        yield step
        except PCGError as error:
            yield error

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)


def _keep_to_one_core() -> None:
    """Ray counts one core for a replica, but holds none to it: decoding and codec would take two, from the next replica."""
    from ray import serve

    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[serve.get_replica_context().rank.local_rank % len(cores)]})
