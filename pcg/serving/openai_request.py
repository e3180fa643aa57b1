"""What OpenAI's speech endpoint is asked, with this program's knobs beside it, and how it answers what is wrong."""

import re
import secrets
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pcg.errors import InputError, PCGError, unexpected
from pcg.serving.sound_formats import STREAMED, formats
from pcg.serving.speech_service import Busy, Lost
from pcg.settings import Settings, bounds

KNOBS = ("theta", "lookahead", "beta", "temperature")
LEFT = 499
"""The status, as nginx has it, of a request whose client went away before it was answered; it is counted, not heard."""
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
FIELDS_OF_INPUT = ("text", "text with its reference", "pause")
"""What the engine complains of where it is `input` that a client has to change."""


class NamedVoice(BaseModel):
    """A voice as OpenAI names its newer ones."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: str


class SpeechRequest(BaseModel):
    """The body of POST /v1/audio/speech. Behind the fields of OpenAI stand those of `Settings`; None means its default.

    wait: answer when all is spoken, with the figures of the take in the headers. seed: drawn anew where it is None.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str
    input: str
    voice: str | NamedVoice
    response_format: str = "mp3"
    speed: float = 1.0
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str = ""
    wait: bool = False
    method: str | None = None
    theta: float | None = None
    lookahead: int | None = None
    beta: float | None = None
    temperature: float | None = None
    seed: int | None = None

    @property
    def voice_name(self) -> str:
        return self.voice if isinstance(self.voice, str) else self.voice.id

    @property
    def whole(self) -> bool:
        """Whether all is spoken before the answer begins."""
        return self.wait or self.response_format not in STREAMED

    def settings(self, method: str) -> Settings:
        """Those of the take; `method` where none is named. Raises InputError for a value out of range."""
        given = {name: value for name in KNOBS if (value := getattr(self, name)) is not None}
        seed = secrets.randbelow(int(bounds("seed").high) + 1) if self.seed is None else self.seed
        return Settings(self.method or method, seed=seed, **given)


def read_request(body: object) -> SpeechRequest:
    """Raise InputError, in one sentence, for what is no request that can be answered."""
    if not isinstance(body, dict):
        raise InputError("body", type(body).__name__, "a JSON object")
    try:
        request = SpeechRequest.model_validate(body)
    except ValidationError as error:
        raise _sentence(error.errors()[0]) from error
    if request.response_format not in formats():
        raise InputError("response_format", request.response_format, "one of " + ", ".join(formats()))
    if request.speed != 1:
        raise InputError("speed", request.speed, "1: this voice has a pace of its own")
    if request.instructions:
        raise InputError("instructions", request.instructions, "left out: this voice takes none")
    return request


def _sentence(found: Any) -> InputError:
    """The first complaint of pydantic, in this program's words."""
    field = ".".join(str(part) for part in found["loc"] if part not in ("str", "NamedVoice"))
    if found["type"] == "missing":
        return InputError(field, None, "given")
    if found["type"] == "extra_forbidden":
        return InputError("body", f"with {field[:40]}", "without it: there is no such field")
    allowed = found["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return InputError(field, found["input"], allowed)


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, error: PCGError, status: int = 400, code: str | None = None) -> None:
        super().__init__(str(error))
        self.error, self.status, self.code = error, status, code

    def body(self) -> dict[str, object]:
        """In OpenAI's shape."""
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        message, param = str(self.error), getattr(self.error, "field", None)
        if param in FIELDS_OF_INPUT:
            message, param = re.sub("^text", "input", message), "input"
        return {"error": {"message": message, "type": kind, "param": param, "code": self.code}}


def refusal(error: Exception) -> Refusal:
    """How a client is told of whatever went wrong."""
    match error:
        case Refusal():
            return error
        case Busy():
            return Refusal(error, 429, "rate_limit_exceeded")
        case Lost():
            return Refusal(error, 503, "replica_lost")
        case PCGError():
            return Refusal(error)
        case ClientDisconnect():
            return Refusal(PCGError("The client left before it was answered."), LEFT)
        case HTTPException():
            return Refusal(PCGError(f"{str(error.detail).rstrip('.')}."), error.status_code)
    return Refusal(unexpected(error), 500)
