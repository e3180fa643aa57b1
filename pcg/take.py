"""What came out: a Round is one step of the decoding loop, a Take the utterance, a Cycle the beams of a search."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pcg.rules import Test

if TYPE_CHECKING:
    from pcg.settings import Settings

KINDS = ("accepted", "resampled", "bonus", "target")


@dataclass(frozen=True)
class Round:
    """One step: what was drafted, the test of each drafted token up to the first rejection, what was emitted, what it cost.

    tokens (without the end of speech), kinds and group_sizes run side by side. A kind is "accepted", "resampled", "bonus",
    or, in AR, "target"; the size is that of the group behind the token (1 where no group was involved). `accepted`
    counts accepted drafted tokens that were kept, an end of speech included; `ended` says that the end of speech was emitted.
    Times are in milliseconds.
    """

    tokens: tuple[int, ...]
    kinds: tuple[str, ...]
    group_sizes: tuple[int, ...]
    accepted: int = 0
    ended: bool = False
    drafted: tuple[int, ...] = ()
    tests: tuple[Test, ...] = ()
    trials: int = 0
    next_group: int = -1
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    rule_ms: float = 0.0

    @property
    def milliseconds(self) -> float:
        """All its work: drafting, verification and rule."""
        return self.draft_ms + self.verify_ms + self.rule_ms


@dataclass(frozen=True)
class Branch:
    """One beam of one cycle: what it said, how real each detector that saw it found it (0..1), after how many stages it was
    pruned (3: never), and its weighted rank (lower is better; None where it was pruned before)."""

    number: int
    rounds: tuple[Round, ...]
    scores: Mapping[str, float]
    stages: int
    rank: float | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for round_ in self.rounds for token in round_.tokens)


@dataclass(frozen=True)
class Cycle:
    """All beams from token `start` on, and the number of the one that stayed; the warm-up has one beam, not judged."""

    start: int
    branches: tuple[Branch, ...]
    chosen: int

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.branches[self.chosen].rounds

    @property
    def computed(self) -> int:
        """Tokens that the target read, in all branches."""
        return sum(len(round_.drafted) + 1 for branch in self.branches for round_ in branch.rounds)


@dataclass(frozen=True)
class Sound:
    """Samples `[N]`, float32, that are final while the rest is still being decoded."""

    samples: np.ndarray = field(repr=False)
    sample_rate: int


@dataclass(frozen=True)
class Take:
    """One spoken text. `audio` is float32 `[N]` at `sample_rate`; `wall_seconds` is all the work from text to audio. `cycles`:
    what a hierarchical search chose `rounds` from.

    pauses: each pause of the text as the number of tokens before it, and its seconds; the silence is in `audio`, and so in
    `audio_seconds` and the real-time factors, while no token stands for it. Token i begins at sample codec.hop * i, later
    by the length of every pause before it (those whose first number is at most i). Seconds counted by tokens alone leave the
    pauses out.
    """

    text: str
    voice: str
    settings: "Settings"
    rounds: tuple[Round, ...]
    audio: np.ndarray = field(repr=False)
    sample_rate: int
    hit_limit: bool
    prefill_ms: float
    codec_ms: float
    wall_seconds: float
    cycles: tuple[Cycle, ...] = field(default=(), repr=False)
    pauses: tuple[tuple[int, float], ...] = ()

    @property
    def audio_seconds(self) -> float:
        return len(self.audio) / self.sample_rate

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of the decoding loop, the end of speech counted as one, without prompt and codec (see `rtf`)."""
        spoken = len(self.tokens) + sum(r.ended for r in self.rounds)
        return 1e3 * spoken / self.decoding_ms if self.decoding_ms else 0.0

    @property
    def rtf(self) -> float:
        """Real-time factor: seconds of work per second of audio, prompt and codec included."""
        return self.wall_seconds / self.audio_seconds if self.audio_seconds else float("inf")

    @property
    def computed_per_token(self) -> float:
        """Tokens that the target read for each that was said, those of pruned beams included."""
        computed = sum(c.computed for c in self.cycles) if self.cycles else sum(len(r.drafted) + 1 for r in self.rounds)
        return computed / max(1, len(self.tokens))

    @property
    def drafted(self) -> int:
        return sum(len(r.drafted) for r in self.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted tokens, vLLM's draft acceptance rate; None where nothing was drafted."""
        accepted = sum(r.accepted for r in self.rounds)
        return accepted / self.drafted if self.drafted else None

    @property
    def acceptance_of_tested(self) -> float | None:
        """Accepted / tested tokens: behind the first rejection of a round nothing is tested; None where nothing was."""
        tests = [test.accepted for r in self.rounds for test in r.tests]
        return sum(tests) / len(tests) if tests else None

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per target call: 1 + accepted / rounds (vLLM's definition); 1 in AR."""
        accepted = sum(r.accepted for r in self.rounds)
        return 1 + accepted / len(self.rounds) if self.rounds else 1.0

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share of rounds in which the drafted token at position i was accepted, i = 1 .. lookahead."""
        drafting = [r for r in self.rounds if r.tests]
        depth = max((len(r.tests) for r in drafting), default=0)
        return [sum(len(r.tests) > i and r.tests[i].accepted for r in drafting) / len(drafting) for i in range(depth)]

    @property
    def conditional_acceptance_by_position(self) -> list[float]:
        """Share of the tests at position i that accepted: a test there means that all before it had."""
        counts = self.counts_by_position
        return [accepted / tested for accepted, tested in zip(counts["accepted"], counts["tested"], strict=True) if tested]

    @property
    def counts_by_position(self) -> dict[str, list[int]]:
        """How many tokens were drafted, tested and accepted at each position of the lookahead; nothing for AR."""
        depth = 0 if self.settings.method == "ar" else self.settings.lookahead
        tests = [[r.tests[i].accepted for r in self.rounds if len(r.tests) > i] for i in range(depth)]
        drafted = [sum(len(r.drafted) > i for r in self.rounds) for i in range(depth)]
        return {"drafted": drafted, "tested": [len(at) for at in tests], "accepted": [sum(at) for at in tests]}

    @property
    def decoding_ms(self) -> float:
        """The decoding loop alone: drafting, verification and rule, without prompt and codec."""
        return sum(r.milliseconds for r in self.rounds)

    @property
    def lm_rtf(self) -> float:
        """Seconds of the decoding loop per second of audio."""
        return 1e-3 * self.decoding_ms / self.audio_seconds if self.audio_seconds else float("inf")

    @property
    def ms_per_round(self) -> dict[str, float]:
        """Where a round's time goes, in milliseconds; the codec's and the prompt's are spread over the rounds."""
        count = max(1, len(self.rounds))
        parts = {name: sum(getattr(r, f"{name}_ms") for r in self.rounds) / count for name in ("draft", "verify", "rule")}
        return parts | {"prefill": self.prefill_ms / count, "codec": self.codec_ms / count}

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(t for r in self.rounds for t in r.tokens)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each token in `tokens`."""
        return tuple(k for r in self.rounds for k in r.kinds)

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """The size of the group behind each token in `tokens`."""
        return tuple(s for r in self.rounds for s in r.group_sizes)

    def summary(self) -> dict[str, object]:
        """Return the figures of this take, ready for JSON."""
        rate, of_tested = self.acceptance_rate, self.acceptance_of_tested
        return {
            "method": self.settings.method,
            "text": self.text,
            "voice": self.voice,
            "seed": self.settings.seed,
            "tokens": len(self.tokens),
            "audio_seconds": round(self.audio_seconds, 4),
            "pauses": [list(pause) for pause in self.pauses],
            "wall_seconds": round(self.wall_seconds, 4),
            "tokens_per_second": round(self.tokens_per_second, 2),
            "rtf": round(self.rtf, 4) if self.audio_seconds else None,
            "rounds": len(self.rounds),
            "computed_per_token": round(self.computed_per_token, 4),
            "acceptance_rate": None if rate is None else round(rate, 4),
            "acceptance_of_tested": None if of_tested is None else round(of_tested, 4),
            "mean_acceptance_length": round(self.mean_acceptance_length, 4),
            "acceptance_by_position": [round(a, 4) for a in self.acceptance_by_position],
            "conditional_acceptance_by_position": [round(a, 4) for a in self.conditional_acceptance_by_position],
            "lm_rtf": round(self.lm_rtf, 4) if self.audio_seconds else None,
            "ms_per_round": {name: round(ms, 4) for name, ms in self.ms_per_round.items()},
            "hit_limit": self.hit_limit,
            "settings": self.settings.as_dict(),
        }


Speak = Callable[..., Iterator[Round | Sound | Take]]
"""What `Synthesizer.speak` is, alone or in a batch: text, settings, voice and reference in; rounds, sounds,
and the take last."""


def last_take(steps: Iterable[Round | Sound | Take]) -> Take:
    """Return the result of speaking."""
    *_, last = steps
    assert isinstance(last, Take)
    return last


FIGURES = ("text", "voice", "hit_limit", "prefill_ms", "codec_ms", "wall_seconds", "sample_rate")
SEQUENCES = ("tokens", "kinds", "group_sizes", "drafted")


def write_take(take: Take) -> dict[str, object]:
    """`take` without its sound, and without the beams of a hierarchical search; ready for JSON."""
    figures = {name: getattr(take, name) for name in FIGURES}
    figures["pauses"] = [list(pause) for pause in take.pauses]
    return {**figures, "settings": take.settings.as_dict(), "rounds": [asdict(round_) for round_ in take.rounds]}


def read_take(values: Mapping[str, object], audio: np.ndarray) -> Take:
    """Read what `write_take` wrote, with its sound `[N]`; raises KeyError, TypeError, ValueError or InputError otherwise."""
    from pcg.settings import Settings

    rounds = []
    for round_ in values["rounds"]:
        lists = {name: tuple(round_[name]) for name in SEQUENCES}
        if len({len(lists[name]) for name in ("tokens", "kinds", "group_sizes")}) > 1:
            raise ValueError("tokens, kinds and group sizes do not fit together")
        rounds.append(Round(**{**round_, **lists, "tests": tuple(Test(**test) for test in round_["tests"])}))
    figures = {name: values[name] for name in FIGURES}
    pauses = tuple((int(before), float(seconds)) for before, seconds in values.get("pauses", ()))  # older takes have none
    return Take(settings=Settings.from_dict(values["settings"]), rounds=tuple(rounds), audio=audio, pauses=pauses, **figures)


def pack_take(take: Take) -> bytes:
    """`write_take` as a few kilobytes, for a server that remembers the takes of many visitors."""
    return zlib.compress(json.dumps(write_take(take), separators=(",", ":")).encode())


def unpack_take(packed: bytes, audio: np.ndarray) -> Take:
    return read_take(json.loads(zlib.decompress(packed)), audio)


def accepted_in_words(of_drafted: float | None, of_tested: float | None, by_position: Sequence[float]) -> str:
    """Return the figures of `Take` of the same meaning, as one phrase; "" where nothing was tested."""
    if of_drafted is None or of_tested is None:
        return ""
    places = ", ".join(f"{share:.0%}" for share in by_position)
    return f"accepted {of_drafted:.0%} of drafted and {of_tested:.0%} of tested tokens, by position {places} of rounds"


def accepted_in_columns(of_drafted: float | None, of_tested: float | None, by_position: Sequence[float]) -> dict[str, str]:
    """Return the same as cells of a table, by title; "-" for what there is none of."""
    rates = {"of drafted": of_drafted, "of tested": of_tested}
    cells = {title: "-" if rate is None else f"{rate:.1%}" for title, rate in rates.items()}
    return cells | {"by position %": " ".join(f"{100 * share:.0f}" for share in by_position) or "-"}
