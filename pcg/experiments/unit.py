"""Utterances, conditions, and units of work with their results; `worker.py` runs a unit."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from pcg.errors import InputError
from pcg.groups.swap import Swap
from pcg.settings import Settings

# Raise it when units with the same fields come to mean other work.
FORMAT = 2
MODELS = ("target", "draft", "original", "codec")
RECORDED = ("original", "codec")
DEFAULTS = Settings()
# The settings that a method reads; units that differ in others alone are one.
_READ = {
    "ar": ("method", "temperature", "seed"),
    "sd": ("method", "temperature", "seed", "lookahead"),
    "ssd": ("method", "temperature", "seed", "lookahead", "beta"),
    "pcg": ("method", "temperature", "seed", "lookahead", "theta", "similarity"),
}
# Part of a unit's identity where they are not the defaults: older units keep theirs.
_LATER = ("sampler", "top_k", "top_p", "repetition_penalty", "hierarchical", "verification")
# Older swaps could leave tokens out.
_WHOLE = {"fraction": 1.0}


@dataclass(frozen=True)
class Utterance:
    """A `text` for the voice `voice`; `section` is its kind of sentence.

    reference: the path of a recording to clone, "" for a voice that the model knows. reference_text: its words. recording: the
    path of a recording in which the speaker says `text`, or "".
    """

    text: str
    voice: str
    section: str = ""
    reference: str = ""
    reference_text: str = ""
    recording: str = ""


@dataclass(frozen=True)
class Condition:
    """A way to say an utterance; `name` is for tables and no part of its identity.

    settings: their seed does not count. model: "target"; "draft", which then speaks alone; "original", the voice that the model
    learned from; or "codec", that through the codec. For every model but "target" the method must be "ar". rule: another
    acceptance rule than the method's (`pcg.rules.named_rule`), or "". swap: applied to the tokens afterwards.
    """

    name: str
    settings: Settings
    model: str = "target"
    rule: str = ""
    swap: Swap | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError("model", self.model, "one of " + ", ".join(MODELS))
        if self.model != "target" and self.settings.method != "ar":
            raise InputError("method", self.settings.method, "ar where the target does not speak")
        if self.rule and self.settings.method == "ar":
            raise InputError("method", self.settings.method, "any but ar where a rule is given")


@dataclass(frozen=True)
class Unit:
    """An utterance in a condition with a seed.

    Each utterance derives coins of its own from the seed: with shared ones no interval over utterances would show their luck.
    """

    utterance: Utterance
    condition: Condition
    seed: int

    @property
    def settings(self) -> Settings:
        said = self.utterance
        digest = hashlib.sha256(json.dumps([self.seed, said.text, said.voice, said.reference]).encode()).digest()
        return self.condition.settings.with_(seed=int.from_bytes(digest[:4], "big"))

    def key(self, voice: str) -> str:
        """Return the unit's identity, that of voice and judges (`WorkerSpec.voice_id`) included.

        Left out are the names of condition and section, and the settings that the method does not read.
        """
        said, condition, settings = self.utterance, self.condition, self.settings.as_dict()
        read = [name for name in settings if name not in _LATER] if condition.rule else _READ[self.settings.method]
        changed = [name for name in _LATER if settings[name] != getattr(DEFAULTS, name)]
        fields = [
            [said.text, said.voice, said.reference, said.reference_text],
            {name: settings[name] for name in (*read, *changed)},
            [condition.model, condition.rule, condition.swap and asdict(condition.swap) | _WHOLE],
            *([said.recording] if said.recording and condition.model in RECORDED else []),
        ]
        return hashlib.sha256(json.dumps([FORMAT, voice, fields], sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class JudgeTranscript:
    """The transcript of a further judge; the fields are those of `Result`."""

    judge: str
    heard: str
    words: tuple[int, int]
    characters: tuple[int, int]


@dataclass(frozen=True)
class Result:
    """The result of a unit. All but the times are the same in every run.

    heard, words, characters: the transcript of the first judge, errors and length of the reference. similarity: of the speaker
    to the reference voice, for a swap to the utterance before it. tested, accepted_at: drafted tokens tested and accepted by
    position of the lookahead. trials: of thinning. mel_distance: mean absolute difference in dB to the utterance before the
    swap; swapped: share of tokens replaced. Times are in seconds, for a swap those of the take before it: `decoding` is the
    loop alone, `wall` all work from text to audio. also_heard: by the further judges. nats: -log of the probability of the
    tokens under the target, None where it did not speak, after a swap, and at the length limit. distillmos: None where its
    packages are not installed.
    """

    tokens: tuple[int, ...]
    heard: str
    words: tuple[int, int]
    characters: tuple[int, int]
    similarity: float
    dnsmos: float | None
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
    also_heard: tuple[JudgeTranscript, ...] = ()
    nats: float | None = None
    distillmos: float | None = None

    def by(self, judge: str) -> "Result":
        """Return the result with the words of a further judge, who must have been asked."""
        (theirs,) = [transcript for transcript in self.also_heard if transcript.judge == judge]
        return replace(self, heard=theirs.heard, words=theirs.words, characters=theirs.characters)


@dataclass(frozen=True)
class Record:
    """A unit with its result; `context` has machine, versions, workers, judges and date."""

    unit: Unit
    result: Result
    context: dict[str, object]

    def as_dict(self) -> dict[str, Any]:
        """Return the record ready for JSON."""
        return _RECORDS.dump_python(self, mode="json")

    @classmethod
    def from_dict(cls, values: object) -> "Record":
        """Build from the JSON of `as_dict`; raise ValueError or InputError for anything else."""
        return _RECORDS.validate_python(values)


_RECORDS = TypeAdapter(Record)
