"""How a take is spoken: one validated schema, used by the command line, the page and the files that store takes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from pcg.errors import InputError

METHODS = ("ar", "sd", "ssd", "pcg")
SAMPLERS = ("plain", "ras", "eas")
VERIFICATIONS = ("token", "block")
SIMILARITIES = ("cosine", "mel", "fsq", "both")
BLOCKWISE = ("sd", "pcg")
LONGEST_WORD = 40


@dataclass(frozen=True)
class Range:
    """Allowed values of a knob, both ends included, and the step of its slider."""

    low: float
    high: float
    step: float
    unit: str = ""

    def check(self, field: str, value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            # Python refuses to write out an integer of thousands of digits.
            huge = isinstance(value, int) and value.bit_length() > 64
            raise InputError(field, "a huge number" if huge else value, f"a number from {self}")

    def __str__(self) -> str:
        return " to ".join(f"{end:.0f}" if end == int(end) else f"{end:g}" for end in (self.low, self.high))


RANGES = {
    "theta": Range(0.2, 1.0, 0.01, "on the scale of the similarity"),
    "lookahead": Range(1, 16, 1, "tokens"),
    "lookahead_cost": Range(0.0, 1.0, 0.001, "of a round that drafts nothing, for each drafted token; 0: fixed lookahead"),
    "beta": Range(0.0, 1.0, 0.05, "probability"),
    "temperature": Range(0.1, 2.0, 0.05),
    "seed": Range(0, 2**32 - 1, 1),
    "top_k": Range(0, 1000, 1, "tokens"),
    "top_p": Range(0.0, 1.0, 0.05, "probability"),
    "repetition_penalty": Range(1.0, 2.0, 0.05),
}
SAMPLING = ("temperature", "sampler", "top_k", "top_p", "repetition_penalty")
WHOLE = ("lookahead", "seed", "top_k")
SWITCHES = ("adaptive", "hierarchical")


@dataclass(frozen=True)
class Settings:
    """Every knob of one take.

    method: "ar" (target alone), "sd" (exact speculative decoding), "ssd" (tolerance `beta`), "pcg" (groups at `theta`).
    theta: similarity above which two tokens share a group (PCG Eq. 1). lookahead: drafted tokens per round.
    beta: SSD's tolerance (SSD Eq. 5). temperature: of draft and target alike. seed: of every coin. adaptive: draft fewer than
    `lookahead` tokens where the draft is too unsure to be believed (see `pcg.decoding.proposal`). similarity: what makes tokens
    alike (see `pcg.groups.similarities`); PCG alone looks at it. lookahead_cost: above 0, each round drafts as many tokens, up
    to `lookahead`, as pay at this cost and at the acceptances so far (see `pcg.decoding.lookahead`). It is a number, and not
    what a clock says while a take is spoken, so that the take can be said again. verification: "token", or "block"
    (`pcg.acceptance.block`) with methods "sd" and "pcg".

    sampler: how draft and target sample, "plain", "ras" or "eas" (see `pcg.sampling`). top_k, top_p: how much of it is
    kept; 0 is the sampler's own choice. repetition_penalty: of "plain" alone. hierarchical: spoof detectors choose among beams
    (see `pcg.decoding.beam_search`).
    """

    method: str = "pcg"
    theta: float = 0.3
    lookahead: int = 3
    beta: float = 0.3
    temperature: float = 0.8
    seed: int = 0
    adaptive: bool = False
    similarity: str = "cosine"
    sampler: str = "plain"
    top_k: int = 0
    top_p: float = 0.0
    repetition_penalty: float = 1.0
    hierarchical: bool = False
    verification: str = "token"
    lookahead_cost: float = 0.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError("method", self.method, "one of " + ", ".join(METHODS))
        if self.similarity not in SIMILARITIES:
            raise InputError("similarity", self.similarity, "one of " + ", ".join(SIMILARITIES))
        if self.sampler not in SAMPLERS:
            raise InputError("sampler", self.sampler, "one of " + ", ".join(SAMPLERS))
        if self.verification not in VERIFICATIONS:
            raise InputError("verification", self.verification, "one of " + ", ".join(VERIFICATIONS))
        if self.verification == "block" and self.method not in BLOCKWISE:
            raise InputError("verification", "block", f"token with method {self.method}")
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise InputError(name, getattr(self, name), "true or false")
        for name, allowed in RANGES.items():
            value = getattr(self, name)
            allowed.check(name, value)
            if name in WHOLE and value != int(value):
                raise InputError(name, value, f"a whole number from {allowed}")
            object.__setattr__(self, name, int(value) if name in WHOLE else float(value))
        if self.repetition_penalty > 1 and self.sampler != "plain":
            raise InputError("repetition_penalty", self.repetition_penalty, f"1 with sampler {self.sampler}")

    @property
    def varies(self) -> bool:
        """Whether rounds may draft different numbers of tokens."""
        return self.adaptive or self.lookahead_cost > 0

    @property
    def sampling(self) -> tuple[object, ...]:
        """How draft and target sample: the values of SAMPLING."""
        return tuple(getattr(self, name) for name in SAMPLING)

    def with_(self, **changes: object) -> "Settings":
        return replace(self, **changes)

    def for_method(self, method: str) -> "Settings":
        """The same for another method, by token verification where that knows no other."""
        return self.with_(method=method, verification=self.verification if method in BLOCKWISE else "token")

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "Settings":
        """Build from a mapping that may come from anywhere; an unknown key or a wrong kind of value raises InputError."""
        if not isinstance(values, Mapping):
            raise InputError("settings", f"a {type(values).__name__}", "an object of names and values")
        known = [f.name for f in fields(cls)]
        for key, value in values.items():
            if key not in known:
                raise InputError("setting", str(key)[:LONGEST_WORD], "one of " + ", ".join(known))
            if not isinstance(value, str | int | float):
                raise InputError(key, f"a {type(value).__name__}", "a word, a number, true or false")
            if isinstance(value, str) and len(value) > LONGEST_WORD:
                raise InputError(key, value[:LONGEST_WORD], f"a number, or a word of at most {LONGEST_WORD} characters")
        return cls(**values)
