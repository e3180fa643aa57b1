"""What every measure of an utterance has in common: a name, a direction, and numbers for a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pcg.errors import InputError
from pcg.metrics.recording import Recording


@dataclass(frozen=True, eq=False)
class Sample(Recording):
    """A recording and what it is compared with: the `text` that was meant, a `reference` recording of the speaker."""

    text: str | None = None
    reference: Recording | None = None

    def text_for(self, metric: str) -> str:
        """The text; raise InputError on behalf of `metric` where there is none."""
        if self.text is None:
            raise InputError("text", None, f"what was meant to be said, which {metric} compares with")
        return self.text

    def reference_for(self, metric: str) -> Recording:
        """The reference recording; raise InputError on behalf of `metric` where there is none."""
        if self.reference is None:
            raise InputError("reference", None, f"a recording of the speaker, which {metric} compares with")
        return self.reference


class Metric(Protocol):
    """A figure of merit. `key`: what it measures ("sim", "dnsmos"). `name`: who says so, model and version
    included; equal names promise equal numbers, and only numbers of one name may be compared.

    `measure` gives one number for each sample of a batch, whatever else is in it; it raises InputError if a sample lacks the
    text or the reference that it needs.
    """

    @property
    def key(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    def measure(self, batch: Sequence[Sample]) -> list[float]: ...
