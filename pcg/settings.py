"""Every setting of a take, declared once: command line, sliders, HTTP schemas and docs are made from `Settings`.

PAPERS holds the settings of the papers, by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from pcg.errors import InputError

METHODS = ("ar", "sd", "ssd", "pcg")
EXACT = ("ar", "sd")
"""Methods whose tokens have the target's distribution."""
SAMPLERS = ("plain", "ras", "eas")
SIMILARITIES = ("cosine", "mel")
LONGEST_WORD = 40


class Bounds(NamedTuple):
    """The allowed values of a numeric setting, both ends included, and the step of its slider."""

    low: float
    high: float
    step: float

    def check(self, field: str, value: object) -> None:
        """Raise InputError unless `value` is a number within the bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            raise InputError(field, value, f"a number from {self}")

    def __str__(self) -> str:
        return " to ".join(f"{end:.0f}" if end == int(end) else f"{end:g}" for end in (self.low, self.high))


def _not_a_switch(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("a number is needed")
    return value


Number = Annotated[float, BeforeValidator(_not_a_switch)]
Count = Annotated[int, BeforeValidator(_not_a_switch)]


def _knob(default: float, low: float, high: float, step: float, description: str) -> Any:
    return Field(default, ge=low, le=high, json_schema_extra={"step": step}, description=description)


class Checked(BaseModel):
    """Frozen values that are checked when they are made: InputError names the first field that is unknown, missing or not as
    its description says."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._input_error(error) from None

    @classmethod
    def allowed(cls, name: str) -> str:
        """Say in words what the field `name` may be."""
        field = cls.model_fields[name]
        if words := get_args(field.annotation) if get_origin(field.annotation) is Literal else ():
            return "one of " + ", ".join(word or "nothing" for word in words)
        if field.annotation is bool:
            return "true or false"
        if "step" in _extra(field):
            return f"a {'whole ' if field.annotation is int else ''}number from {_bounds(field)}"
        return str(field.description)

    @classmethod
    def _input_error(cls, error: ValidationError) -> InputError:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if name not in cls.model_fields:
            return InputError("setting", name[:LONGEST_WORD], "one of " + ", ".join(cls.model_fields))
        if first["type"] == "missing":
            return InputError(name, None, cls.allowed(name))
        return InputError(name, shown(first["input"]), cls.allowed(name))

    def with_(self, **changes: object) -> Self:
        """Copy with other values of some fields, checked anew."""
        return type(self)(**{**dict(self), **changes})


def shown(value: object) -> object:
    """Shorten a value so that one sentence can quote it."""
    if isinstance(value, str):
        return value[:LONGEST_WORD]
    return value if isinstance(value, bool | int | float | None) else f"a {type(value).__name__}"


class Settings(Checked):
    """How a take is decoded."""

    method: Literal["ar", "sd", "ssd", "pcg"] = Field(
        "pcg", description="ar: the target alone; sd: exact; ssd: tolerance beta; pcg: groups at theta."
    )
    theta: Number = _knob(0.3, 0.2, 1.0, 0.01, "Tokens more similar than this share a group (PCG Eq. 1).")
    lookahead: Count = _knob(3, 1, 16, 1, "Drafted tokens per round.")
    beta: Number = _knob(0.3, 0.0, 1.0, 0.05, "Probability added to SSD's acceptance (SSD Eq. 5).")
    temperature: Number = _knob(0.8, 0.0, 2.0, 0.05, "Temperature of draft and target; 0: greedy.")
    seed: Count = _knob(0, 0, 2**32 - 1, 1, "Seed of every random number of the take.")
    similarity: Literal["cosine", "mel"] = Field("cosine", description="Embeddings or sound.")
    sampler: Literal["plain", "ras", "eas"] = Field("plain", description="How draft and target sample (MSpoofTTS section 3).")
    top_k: Count = _knob(0, 0, 1000, 1, "Most likely tokens that are kept; 0: the sampler's own choice.")
    top_p: Number = _knob(0.0, 0.0, 1.0, 0.05, "Probability that is kept; 0: the sampler's own choice.")
    repetition_penalty: Number = _knob(1.0, 1.0, 2.0, 0.05, "Divides the logits of earlier tokens; plain sampler only.")
    hierarchical: bool = Field(False, description="Let spoof detectors choose among beams (MSpoofTTS).")
    verification: Literal["token", "block"] = Field(
        "token", description="Test drafted tokens one by one, or together (arXiv 2403.10444; sd only)."
    )

    def __init__(self, method: object = "pcg", /, **values: object) -> None:
        super().__init__(**{"method": method, **values})

    @model_validator(mode="after")
    def _fits_together(self) -> "Settings":
        if self.verification == "block" and self.method != "sd":
            raise InputError("verification", "block", f"token with method {self.method}")
        if self.repetition_penalty > 1 and self.sampler != "plain":
            raise InputError("repetition_penalty", self.repetition_penalty, f"1 with sampler {self.sampler}")
        return self

    @property
    def sampling(self) -> tuple[object, ...]:
        """What the probabilities are drawn by."""
        return self.temperature, self.sampler, self.top_k, self.top_p, self.repetition_penalty

    def for_method(self, method: str) -> "Settings":
        """Copy the settings for another method; block verification falls back to token verification."""
        return self.with_(method=method, verification=self.verification if method == "sd" else "token")

    def as_dict(self) -> dict[str, object]:
        return self.model_dump()

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "Settings":
        """Read untrusted JSON; an unknown key or a wrong kind of value raises InputError."""
        if not isinstance(values, Mapping):
            raise InputError("settings", f"a {type(values).__name__}", "an object of names and values")
        for key, value in values.items():
            if key not in cls.model_fields:
                raise InputError("setting", str(key)[:LONGEST_WORD], "one of " + ", ".join(cls.model_fields))
            if not isinstance(value, str | int | float):
                raise InputError(key, f"a {type(value).__name__}", "a word, a number, true or false")
        return cls(**values)


def choices(name: str) -> tuple[str, ...]:
    """Return the words that setting `name` may be; none where it is a number or a switch."""
    kind = Settings.model_fields[name].annotation
    return get_args(kind) if get_origin(kind) is Literal else ()


def bounds(name: str) -> Bounds:
    """Return the bounds of the numeric setting `name`."""
    return _bounds(Settings.model_fields[name])


def is_numeric(name: str) -> bool:
    return "step" in _extra(Settings.model_fields[name])


def _bounds(field: FieldInfo) -> Bounds:
    ends = {end: getattr(rule, end) for rule in field.metadata for end in ("ge", "le") if hasattr(rule, end)}
    return Bounds(ends["ge"], ends["le"], _extra(field)["step"])


def _extra(field: FieldInfo) -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


@dataclass(frozen=True)
class Preset:
    """Settings with a name. source: where the values stand. note: what differs with the embedded voice."""

    name: str
    settings: Settings
    source: str
    note: str = ""


PAPERS = (
    Preset(
        "PCG, as published",
        Settings("pcg", theta=0.4, lookahead=3, temperature=0.8),
        "arXiv 2511.13732: temperature and lookahead in section 3.1; theta of 0.38 to 0.45 was best (section 2.1)",
        "For LLaSA's 65,536 codes. The line under theta says how large this voice's groups are.",
    ),
    Preset(
        "SSD, as published",
        Settings("ssd", beta=0.4, lookahead=3, temperature=0.8),
        "arXiv 2505.15380, section 3.1: beta and lookahead; no temperature is named there, 0.8 is the PCG paper's",
        "For CosyVoice 2. For this voice see Evidence.",
    ),
    Preset(
        "SSD, beside PCG",
        Settings("ssd", beta=0.3, lookahead=3, temperature=0.8),
        "arXiv 2511.13732, section 4: the bias at which SSD is as fast as PCG",
        "With the embedded voice the two were not matched in speed.",
    ),
    Preset(
        "SD, as published",
        Settings("sd", lookahead=3, temperature=0.8),
        "arXiv 2511.13732, section 3.1",
        "Its probabilities are AR's, at any lookahead.",
    ),
    Preset("AR, as published", Settings("ar", temperature=0.8), "arXiv 2511.13732, section 3.1"),
    Preset("PCG, this voice", Settings(), "The defaults: the papers' temperature and lookahead"),
)
