"""Messages for a visitor whose take is queued. Knows nothing of gradio."""

from collections.abc import Iterator

from pcg.errors import counted
from pcg.serving.speech_service import Speech
from pcg.synthesis.synthesizer import Synthesizer

WAIT_SECONDS = 0.5
PREPARING = "The page warms up; at its very first start this can take a minute. The takes on this page can be played meanwhile."


def while_waiting(speech: object, synthesizer: Synthesizer) -> Iterator[str]:
    """Yield messages now and then until `speech` is being decoded; without a service it never waits."""
    while isinstance(speech, Speech) and speech.waits(WAIT_SECONDS):
        yield PREPARING if synthesizer.preparing else waiting(speech.place, speech.seconds_left)


def waiting(place: int, seconds_left: float | None) -> str:
    """Describe the place in the queue."""
    before = "You are next" if place <= 1 else f"{counted(place - 1, 'take')} of other visitors before yours"
    left = "" if seconds_left is None else f", about {counted(max(1, round(seconds_left)), 'second')} left"
    return f"{before}{left}. The takes on this page can be played meanwhile."
