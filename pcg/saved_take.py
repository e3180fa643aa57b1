"""Everything that rebuilds a take, in one validated schema: as JSON, as a link, inside every WAV file, and as code."""

import hashlib
import json
import re
from shlex import join
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import parse_qsl, urlencode

from pydantic import AfterValidator, ConfigDict, Field

from pcg.errors import InputError
from pcg.files import __version__
from pcg.models.hub import content_digest
from pcg.settings import Checked, Settings, is_numeric, shown
from pcg.text.reading import check_text

if TYPE_CHECKING:
    from pcg.synthesis.voice import Voice
    from pcg.take import Take
    from pcg.text.prompt import Reference


VERSION = 1
LARGEST = 65_536
"""Bytes of JSON: the longest text has 60,000, where every character is written as two escapes."""
SHORT_DIGEST = 12
"""Hexadecimal digits of a digest that a link keeps."""
LONGEST_NAME = 160
RECORDING = "a recording"
PRECISIONS = {"cpu": "float32", "cuda": "bfloat16"}
"""The usual precision of products, by device."""
WEIGHTS = ("voice.json", "usage.safetensors", "*/config.json", "*/model.safetensors")
LLASA_WEIGHTS = ("config.json", "model*.safetensors", "tokenizer.json", "chat_template.jinja", "*/model-*.safetensors")
CODEC_WEIGHTS = ("config.json", "*.safetensors", "*.ckpt", "*.bin")
TRAINED, OTHER_DRAFT = "trained", "folder:"
DRAFTS = rf"^((?!auto$)[a-z0-9-]{{1,40}}|layers:[0-9]+(,[0-9]+)*|{OTHER_DRAFT}[0-9a-f]{{16}})$"


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a line break or a control character")
    return name


_NAME = f"a name of 1 to {LONGEST_NAME} printable characters"
_DIGEST = f"64 hexadecimal digits, or the first {SHORT_DIGEST}"
Name = Annotated[str, AfterValidator(_printable), Field(min_length=1, max_length=LONGEST_NAME, description=_NAME)]
Digest = Annotated[str, Field(pattern=rf"^([0-9a-f]{{64}}|[0-9a-f]{{{SHORT_DIGEST}}})$", description=_DIGEST)]


class Origin(Checked):
    """What spoke: the name and the SHA-256 of the voice's files (in a link its first 12 digits), the kind of device, and the
    version of this program.

    licence: of the voice and so of the sound, as its SPDX identifier; empty where it is not known. draft: the draft
    (`pcg.synthesis.voice.Draft.kind`). precision: of matrix products; empty where it is that of `PRECISIONS`.
    """

    model: Name
    digest: Digest
    device: Literal["cpu", "cuda"] = "cpu"
    app: Name = __version__
    licence: str = Field("", pattern=r"^[A-Za-z0-9.+-]{0,40}$", description="an SPDX identifier, or empty")
    draft: str = Field(
        TRAINED,
        pattern=DRAFTS,
        max_length=LONGEST_NAME,
        description="trained, none, a name, or layers of the target as in layers:0,1",
    )
    precision: Literal["", "float32", "bfloat16", "int8"] = ""

    model_config = ConfigDict(regex_engine="python-re")  # DRAFTS looks ahead

    @classmethod
    def of(cls, voice: "Voice") -> "Origin":
        """Read every file of the voice: a few tenths of a second for the embedded one."""
        digest = hashlib.sha256()
        patterns = {voice.folder: (*WEIGHTS, *LLASA_WEIGHTS), voice.codec_folder: CODEC_WEIGHTS}
        for folder, names in patterns.items():
            files = sorted(file for pattern in names for file in folder.glob(pattern)) if folder else ()
            for file in files:
                digest.update(f"{file.relative_to(folder).as_posix()} {content_digest(file)}\n".encode())
        precision = "" if voice.precision == PRECISIONS[voice.device] else voice.precision
        return cls(
            model=voice.name,
            digest=digest.hexdigest(),
            device=voice.device,
            licence=voice.licence,
            draft=voice.draft_kind,
            precision=precision,
        )


class Stored(Checked):
    """A take as it can be made again. It never holds a path, nor a recording.

    reference: where a recording was the voice, the fingerprint of what was read from it. streamed: the sound was made in
    pieces, which gives the same tokens and almost the same samples as at once.
    """

    text: Annotated[str, Field(description="some English text")]
    voice: Name
    settings: Settings
    origin: Origin
    reference: Digest | None = Field(None, description=_DIGEST)
    streamed: bool = Field(False, description="true or false")

    def model_post_init(self, context: object) -> None:
        check_text(self.text)

    @classmethod
    def of(cls, take: "Take", origin: Origin, reference: "Reference | None" = None, streamed: bool = False) -> "Stored":
        """reference: what was passed to the synthesizer in place of a known voice; its file's name is left out."""
        voice, mark = (take.voice, None) if reference is None else (RECORDING, fingerprint(reference))
        return cls(text=take.text, voice=voice, settings=take.settings, origin=origin, reference=mark, streamed=streamed)

    def caveats(self, origin: Origin) -> tuple[str, ...]:
        """Say why `origin` cannot make the take again; empty if it can, on the machine that made it first: the same tokens,
        and with the same number of threads the same samples."""
        made = {
            "digest": "other weights",
            "device": "another kind of device",
            "app": "another version of this program",
            "draft": "another draft",
            "precision": "products of another precision",
        }
        ours, theirs = self.origin.model_dump(), origin.model_dump()
        digits = min(len(self.origin.digest), len(origin.digest))  # a link keeps the first ones
        ours["digest"], theirs["digest"] = ours["digest"][:digits], theirs["digest"][:digits]
        told = [f"It was made with {what}." for name, what in made.items() if ours[name] != theirs[name]]
        if self.reference is not None:
            told.append("Its voice came from a recording, which is not stored: bring the same recording.")
        return tuple(told)

    def to_json(self, indent: int | None = None) -> str:
        """Write ASCII alone, which every program that shows a WAV file's comment can read."""
        return json.dumps({"version": VERSION, **self.model_dump()}, indent=indent)

    @classmethod
    def from_json(cls, content: str | bytes) -> "Stored":
        """Read what `to_json` wrote; anything else raises InputError."""
        if len(content) > LARGEST:
            raise InputError("settings", f"{len(content):,} bytes", f"at most {LARGEST:,} bytes of JSON")
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError("settings", "not JSON", "the JSON that PCG Lab wrote") from error
        own = _object("settings file", values)
        version = own.pop("version", None)
        if type(version) is not int or version != VERSION:
            raise InputError("version", shown(version), f"{VERSION}")
        settings = _object("settings", own.get("settings"))
        if missing := [name for name in Settings.model_fields if name not in settings]:
            # The defaults of another version would stand in for it.
            raise InputError(missing[0], None, "given")
        origin = Origin(**_object("origin", own.get("origin")))
        return cls(**{**own, "settings": Settings.from_dict(settings), "origin": origin})


def fingerprint(reference: "Reference") -> str:
    """SHA-256 of the words and the speech codes of a reference."""
    return hashlib.sha256(reference.text.encode() + b"\0" + reference.codes.cpu().long().numpy().tobytes()).hexdigest()


def _object(field: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(field, shown(value), "an object of names and values")
    return dict(value)


RECORDING_FILE = "recording.wav"
RECORDING_WORDS = "the words in it"
BRING = f"# {RECORDING_FILE} stands for the recording that was the voice: it is not stored."
FOLDER = "# The voice is a folder of that name: say where it lies."
DRAFT_FOLDER = "# The draft was another trained one, in a folder: say where it lies."
EMBEDDED = "embedded"


def python_snippet(stored: Stored, model: str = EMBEDDED) -> str:
    """Return a script that makes the take and writes speech.wav. model: as `load_voice` takes it."""
    device = f", {stored.origin.device!r}" if stored.origin.device != "cpu" else ""
    draft = "".join(f", draft={choice!r}" for choice in _draft(stored))
    speaker, reference = f"{stored.voice!r}", []
    if stored.reference is not None:
        reference = [f"reference = voice.reference_from_audio(Path({RECORDING_FILE!r}), {RECORDING_WORDS!r})"]
        speaker += ", reference"
    asked = f"{stored.text!r}, settings, {speaker}"
    spoken = f"*_, take = synthesizer.speak({asked}, stream=True)" if stored.streamed else f"take = synthesizer.take({asked})"
    origin = f"Origin.of(voice){', reference' if stored.reference else ''}{', streamed=True' if stored.streamed else ''}"
    lines = [
        "from pathlib import Path",
        "",
        "from pcg.audio import write_wav",
        "from pcg.settings import Settings",
        "from pcg.saved_take import Origin, Stored",
        "from pcg.synthesis.synthesizer import Synthesizer",
        "from pcg.synthesis.voice import load_voice",
        "",
        *_notes(stored, model),
        f"voice = load_voice({model!r}{device}{draft}, precision={precision_of(stored)!r})",
        "synthesizer = Synthesizer(voice)",
        f"settings = {stored.settings!r}",
        *reference,
        spoken,
        f'write_wav(Path("speech.wav"), take.audio, take.sample_rate, Stored.of(take, {origin}).to_json())',
    ]
    return "\n".join(lines) + "\n"


def shell_snippet(stored: Stored, model: str = EMBEDDED) -> str:
    """Return a command that writes speech.wav. A streamed take is said at once: the same tokens, and samples within -45 dB."""
    settings = stored.settings
    words = ["python", "-m", "pcg", "speak"]
    for name, value in settings.as_dict().items():
        option = f"--{name.replace('_', '-')}"
        words += ([option] if value else []) if isinstance(value, bool) else [option, str(value)]
    if stored.reference is None:
        words += ["--voice", stored.voice]
    else:
        words += ["--reference", RECORDING_FILE, "--reference-text", RECORDING_WORDS]
    words += ["--model", model, "--device", stored.origin.device, "--precision", precision_of(stored), "--out", "speech.wav"]
    words += [word for choice in _draft(stored) for word in ("--draft", choice)]
    notes = _notes(stored, model)
    notes += ["# It was streamed: the tokens are the same, the samples almost."] if stored.streamed else []
    # A text may begin with a dash: after two of them nothing is an option.
    return "\n".join([*notes, join([*words, "--", stored.text])]) + "\n"


def precision_of(stored: Stored) -> str:
    return stored.origin.precision or PRECISIONS[stored.origin.device]


def _draft(stored: Stored) -> list[str]:
    """Return how the draft has to be chosen, if it is not the voice's own."""
    kind = stored.origin.draft
    return [] if kind == TRAINED else ["draft" if kind.startswith(OTHER_DRAFT) else kind]


def _notes(stored: Stored, model: str) -> list[str]:
    """Comments that tell what else has to be brought."""
    notes = {
        FOLDER: model != EMBEDDED and "/" not in model,  # a repository of the hub is loaded by its name
        DRAFT_FOLDER: stored.origin.draft.startswith(OTHER_DRAFT),
        BRING: stored.reference is not None,
    }
    return [note for note, is_needed in notes.items() if is_needed]


WHOLE_LINK = "a link that PCG Lab wrote, copied to its end"
USUAL = {
    "similarity": "cosine", "sampler": "plain", "top_k": 0, "top_p": 0.0, "repetition_penalty": 1.0, "hierarchical": False,
    "verification": "token",
}  # fmt: skip
"""Settings that a link leaves out at these values, whatever the defaults of the program are."""
ORIGIN = {"device": "cpu", "draft": TRAINED, "precision": ""}


def write_link(stored: Stored) -> str:
    """Write `stored` as `text=...&voice=...&method=pcg&theta=0.3&...`. Of digests 12 hexadecimal digits are kept."""
    settings = {name: value for name, value in stored.settings.as_dict().items() if USUAL.get(name) != value}
    origin = stored.origin
    made = {"model": origin.model, "digest": origin.digest[:SHORT_DIGEST], "app": origin.app}
    made |= {name: getattr(origin, name) for name, usual in ORIGIN.items() if getattr(origin, name) != usual}
    made |= {"streamed": "true"} if stored.streamed else {}
    made |= {"reference": stored.reference[:SHORT_DIGEST]} if stored.reference else {}
    return urlencode({"text": stored.text, "voice": stored.voice, **{k: _written(v) for k, v in settings.items()}, **made})


def read_link(query: str) -> Stored | None:
    """Read what `write_link` wrote.

    Returns:
        None if the query names no text.

    Raises:
        InputError: if it names a text, and anything else is missing or wrong.
    """
    if len(query) > LARGEST:
        raise InputError("link", f"{len(query):,} characters", f"at most {LARGEST:,} characters")
    try:
        values = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=60))
    except ValueError as error:
        raise InputError("link", query[:40], WHOLE_LINK) from error
    if "text" not in values:
        return None
    settings = USUAL | {name: _read(name, values[name]) for name in Settings.model_fields if name in values}
    try:
        made = {name: values.get(name, usual) for name, usual in ORIGIN.items()}
        origin = Origin(model=values["model"], digest=values["digest"], app=values["app"], **made)
        return Stored(
            text=values["text"],
            voice=values["voice"],
            settings=Settings.from_dict(settings),
            origin=origin,
            reference=values.get("reference"),
            streamed=values.get("streamed") == "true",
        )
    except KeyError as missing:
        raise InputError("link", f"one without {missing}", WHOLE_LINK) from missing


def _written(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else value


def _read(name: str, written: str) -> object:
    """Return a value of the setting `name`; what is no number or switch stays text, and `Settings` refuses it."""
    if Settings.model_fields[name].annotation is bool:
        return {"true": True, "false": False}.get(written, written)
    if is_numeric(name) and re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", written):
        return float(written) if re.search(r"[.e]", written) else int(written)
    return written
