"""A take that travels: as a link, as JSON, as code, inside a WAV file. Knows nothing of gradio."""

import hashlib
from collections.abc import Collection
from html import escape
from pathlib import Path

from explorers.session import ShownTake
from pcg.audio import write_wav
from pcg.errors import InputError
from pcg.models.hub import model_name
from pcg.saved_take import EMBEDDED, Origin, Stored, python_snippet, read_link, shell_snippet, write_link
from pcg.settings import PAPERS, Settings
from pcg.synthesis.voice import EMBEDDED as EMBEDDED_FOLDER
from pcg.synthesis.voice import Voice
from pcg.take import Take

NO_CONTROL = ("repetition_penalty", "hierarchical")
"""Settings of a take that no control of the page sets."""
OWN_RECORDING = "It was spoken with your recording, which no link holds."
ELSEWHERE = "This take was recorded on another computer: made again here, a few tokens may differ."


def link_of(shown: ShownTake, origin: Origin, voices: Collection[str]) -> dict[str, str]:
    """Return the query string of a take, what to say beside it, and why there is none."""
    if shown.take.voice not in voices:
        return {"link": "", "note": OWN_RECORDING}
    return {"link": write_link(Stored.of(shown.take, origin)), "note": ELSEWHERE if shown.recorded else ""}


def texts_of(shown: ShownTake, origin: Origin, voice: Voice) -> dict[str, str]:
    """Return the take as JSON and as lines of Python and shell that make it again; empty where no link holds it."""
    if not link_of(shown, origin, voice.references)["link"]:
        return {}
    stored, model = Stored.of(shown.take, origin), EMBEDDED if voice.folder == EMBEDDED_FOLDER else model_name(voice.folder)
    return {"json": stored.to_json(indent=2), "python": python_snippet(stored, model), "shell": shell_snippet(stored, model)}


def presets() -> list[dict[str, object]]:
    """Return the settings of the papers, ready for JSON. The seed of a preset means nothing."""
    return [
        {"name": preset.name, "note": f"{preset.source}. {preset.note}".strip(), "settings": preset.settings.as_dict()}
        for preset in PAPERS
    ]


def brought(what: object) -> Stored | Settings:
    """Read what a visitor brings: {"link": query}, {"file": JSON text} or {"settings": values}. Raises InputError if it is none
    of these, or bad."""
    values = what if isinstance(what, dict) else {}
    if isinstance(values.get("settings"), dict):
        settings = dict(values["settings"])
        return Settings.from_dict({**settings, "method": "pcg"}).for_method(str(settings.get("method", "pcg"))[:40])
    if isinstance(values.get("link"), str) and (stored := read_link(values["link"])):
        return stored
    if isinstance(values.get("file"), str):
        return Stored.from_json(values["file"])
    raise InputError("take", None, "a link, a JSON file or a WAV file that PCG Lab wrote")


def controls_of(stored: Stored | Settings, voices: Collection[str]) -> dict[str, object]:
    """Return the values of the controls, by name. An unknown voice is left as it is; a known one clears the recording."""
    if isinstance(stored, Settings):
        return {name: value for name, value in stored.as_dict().items() if name not in ("seed", "method", *NO_CONTROL)}
    values: dict[str, object] = {"text": stored.text, **stored.settings.as_dict()}
    return values | ({"voice": stored.voice, "recording": None} if stored.voice in voices else {})


def caveats(stored: Stored, origin: Origin, voices: Collection[str]) -> str:
    """Say why a take that came by a link or a file may sound different here, escaped."""
    told = [f"Shared take: {stored.settings.method.upper()}, seed {stored.settings.seed}."]
    if stored.reference is None and stored.voice not in voices:
        told.append(f"The voice {stored.voice} is not available here, so another one is used.")
    lacking = [name.replace("_", " ") for name in NO_CONTROL if getattr(stored.settings, name) != getattr(Settings(), name)]
    told += [f"Its {' and '.join(lacking)} cannot be set on this page."] if lacking else []
    return escape(" ".join([*told, *stored.caveats(origin)]), quote=False)


def wav_file(take: Take, stored: Stored, cache: Path) -> Path:
    """Write the take, with its settings inside, into a folder of its own in `cache`; the same take goes to the same place."""
    key = hashlib.sha256(stored.to_json().encode() + take.audio.tobytes()).hexdigest()
    path = cache / key / f"{stored.settings.method}-seed-{stored.settings.seed}.wav"
    if not path.is_file():
        write_wav(path, take.audio, take.sample_rate, stored.to_json())
    return path
