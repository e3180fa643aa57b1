"""What an experiment is made of: utterances, ways to say them, and units of work that are known by their content.

Knows neither models nor judges: `worker.py` runs a unit.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

from pcg.errors import InputError
from pcg.settings import Settings
from pcg.swap import Swap

# Raise it when units with the same fields come to mean other work.
FORMAT = 1
MODELS = ("target", "draft")


@dataclass(frozen=True)
class Utterance:
    """One `text` to be said by the known voice `voice`; `section` is the kind of sentence it is."""

    text: str
    voice: str
    section: str = ""


@dataclass(frozen=True)
class Condition:
    """One way to say an utterance; `name` is how figures call it and no part of its identity.

    settings: their seed does not count. model: "target", or "draft", which then speaks alone (method "ar"). rule: a variant of
    the acceptance rule in place of the method's own, "" for none (see `variants.py`). swap: done to the tokens afterwards.
    """

    name: str
    settings: Settings
    model: str = "target"
    rule: str = ""
    swap: Swap | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError("model", self.model, "one of " + ", ".join(MODELS))
        if self.model == "draft" and self.settings.method != "ar":
            raise InputError("method", self.settings.method, "ar where the draft speaks alone")
        if self.rule and self.settings.method == "ar":
            raise InputError("method", self.settings.method, "any but ar where a rule is given")


@dataclass(frozen=True)
class Unit:
    """One utterance, said in one way with one seed."""

    utterance: Utterance
    condition: Condition
    seed: int

    @property
    def settings(self) -> Settings:
        return self.condition.settings.with_(seed=self.seed)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def key(self, voice: str) -> str:
        """The unit's identity, that of the model that speaks (`voice`) included; names of conditions are left out."""
        fields = self.as_dict()
        fields["condition"] |= {"name": "", "settings": self.settings.as_dict()}
        return hashlib.sha256(json.dumps([FORMAT, voice, fields], sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Result:
    """What came of a unit. Everything but the times is the same in every run.

    words, characters: errors and length of the reference (`pcg.metrics.intelligibility`). similarity, dnsmos: of the speaker
    to the reference voice, and of the sound; for a swapped utterance the similarity is that to the utterance before the swap.
    tested, accepted_at: by position of the lookahead, how many drafted tokens were tested and accepted. trials: of thinning.
    mel_distance: mean absolute difference in dB to the utterance before the swap, None without one; swapped: share of tokens
    that the swap replaced. Times are in seconds: `decoding` is the loop alone, `wall` all work from text to audio.
    """

    tokens: tuple[int, ...]
    heard: str
    words: tuple[int, int]
    characters: tuple[int, int]
    similarity: float
    dnsmos: float
    rounds: int
    drafted: int
    accepted: int
    tested: tuple[int, ...]
    accepted_at: tuple[int, ...]
    trials: int
    hit_limit: bool
    swapped: float
    mel_distance: float | None
    audio_seconds: float
    decoding_seconds: float
    wall_seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> "Result":
        """Build from what `as_dict` gave, through JSON."""
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


@dataclass(frozen=True)
class Record:
    """A unit that was done, and where: `context` says machine, versions, workers, judges and date (see `context.py`)."""

    unit: Unit
    result: Result
    context: dict[str, object]
