"""What the Settings section does: export, share and import the settings of a take. Knows nothing of gradio."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

from explorers.session import Session, ShownTake
from pcg.audio import write_wav
from pcg.errors import InputError, PCGError
from pcg.models.hub import model_name
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import EMBEDDED as EMBEDDED_FOLDER
from pcg.synthesis.voice import Voice
from pcg.takes.link import pack, unpack
from pcg.takes.snippets import EMBEDDED, curl_snippet, python_snippet, shell_snippet
from pcg.takes.stored import LARGEST, Origin, Stored
from pcg.takes.take import Take

LAST = "last"
CHOICES = (LAST, *METHODS)
ADDRESS = "http://127.0.0.1:7860"
LINKED = "take"
LONGEST_LINK = LARGEST
NO_TAKE = "Generate a take first: its settings appear here."
SAME = (
    "On the same computer the take will have the same tokens and, with the same number of threads, the same sound, sample for "
    "sample."
)
NO_CONTROL = ("repetition_penalty", "hierarchical")
"""Settings of a take that no control of the page sets."""
OWN_RECORDING = "This take was spoken with your recording. Download its WAV file, which contains the settings."


@dataclass(frozen=True)
class Written:
    """A take to take away: as JSON, as a link that opens this page with its settings, and as lines to copy."""

    json: str
    link: str
    python: str
    shell: str
    curl: str


def stored_of(session: Session, which: str, synthesizer: Synthesizer, origin: Origin) -> Stored:
    """The last take of this page, or that of a method; raise PCGError where there is none, or a recording was its voice."""
    shown = _shown(session, which)
    if shown is None:
        raise PCGError(NO_TAKE)
    reading = shown.reading
    if reading.voice not in synthesizer.voice.references:
        raise PCGError(OWN_RECORDING)
    return Stored(reading.text, reading.voice, reading.settings, origin, streamed=shown.streamed)


def _shown(session: Session, which: str) -> ShownTake | None:
    if which not in CHOICES:
        raise InputError("take", str(which)[:40], "one of " + ", ".join(CHOICES))
    cards = [card for method, card in session.cards.items() if which in (LAST, method)]
    return cards[-1].first if cards else None


def write_out(stored: Stored, model: str, address: str) -> Written:
    """`model`: the voice as `load_voice` takes it; `address`: where the page is open, with or without a link behind it."""
    page = page_address(address)
    return Written(
        stored.to_json(indent=2),
        share_link(stored, page),
        python_snippet(stored, model),
        shell_snippet(stored, model),
        curl_snippet(stored, page),
    )


def model_of(voice: Voice) -> str:
    """What `load_voice` takes; of another folder the name alone, as visitors need not know where it lies."""
    return EMBEDDED if voice.folder == EMBEDDED_FOLDER else model_name(voice.folder)


def page_address(link: str) -> str:
    """Scheme, host and path of a link; of anything else the address that `make app` has."""
    try:
        parts = urlsplit(link[:LONGEST_LINK])
    except ValueError:
        return ADDRESS
    if parts.scheme not in ("http", "https") or not parts.netloc or not link.isascii():
        return ADDRESS
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def share_link(stored: Stored, address: str) -> str:
    """A link that holds the settings themselves, behind the #, which browsers keep from servers and their logs: it needs no
    memory of this server, and works with any other."""
    return f"{address}/#{LINKED}={pack(stored)}"


def read_link(link: str) -> Stored | None:
    """What `share_link` wrote, or wrote before links were packed, as ?take=JSON; None where the link holds no take, InputError
    where it holds a bad one."""
    if len(link) > LONGEST_LINK:
        raise InputError("link", f"{len(link):,} characters", f"at most {LONGEST_LINK:,} characters")
    try:
        parts = urlsplit(link)
        packed, written = (parse_qs(part, max_num_fields=20).get(LINKED) for part in (parts.fragment, parts.query))
    except ValueError as error:
        raise InputError("link", link[:40], "a link that this page wrote") from error
    if packed:
        return unpack(packed[0])
    return Stored.from_json(written[0]) if written else None


def values_of(stored: Stored, voices: Collection[str]) -> dict[str, object]:
    """The values of the controls for a take, by the names of `explorers.listen.actions.CompareRequest` and of `Settings`.

    An unknown voice is ignored; a known one also clears the recording.
    """
    values: dict[str, object] = {"text": stored.text, **stored.settings.as_dict()}
    return values | ({"voice": stored.voice, "recording": None} if stored.voice in voices else {})


def arrived(stored: Stored, origin: Origin, voices: Collection[str], shared: bool = False) -> str:
    """What to expect of imported settings, as a message; `shared`: they came by a link, whose take the page generates."""
    settings = f"Settings are applied: {_named(stored)}."
    sentences = ["Shared take.", settings] if shared else [settings, "No take has been generated yet."]
    differs = [*_other_voice(stored, voices), *_without_control(stored), *stored.caveats(origin)]
    return " ".join([*sentences, *(differs or [SAME])])


def shared_label(stored: Stored, session: Session, key: str, origin: Origin, voices: Collection[str]) -> str:
    """What stands at the player as long as the take that came by a link is in hand, or still to come; else nothing. `key`: see
    `Session.in_hand`."""
    if not _is_in_hand(stored, session, key, voices):
        return ""
    said = f"<b>Shared take</b>: {_named(stored)}. Press play to hear it."
    return " ".join([said, *_other_voice(stored, voices), *_without_control(stored), *stored.caveats(origin)])


def _is_in_hand(stored: Stored, session: Session, key: str, voices: Collection[str]) -> bool:
    if all(kept.shown.baseline == "recorded" for kept in session.history):
        return True
    reading = session.in_hand(key).reading
    same_voice = reading.voice == stored.voice or stored.voice not in voices
    return same_voice and (reading.text, reading.settings) == (stored.text, stored.settings)


def _named(stored: Stored) -> str:
    return f"{stored.settings.method.upper()}, seed {stored.settings.seed}"


def _other_voice(stored: Stored, voices: Collection[str]) -> list[str]:
    if stored.reference is not None or stored.voice in voices:
        return []
    return [f"The voice {escape(stored.voice, quote=False)} is not available, so another one is used."]


def _without_control(stored: Stored) -> list[str]:
    lacking = [name for name in NO_CONTROL if getattr(stored.settings, name) != getattr(Settings(), name)]
    if not lacking:
        return []
    return [f"No control sets {' and '.join(lacking)}: only “Generate this take again”, under Settings, uses it."]


def wav_file(take: Take, stored: Stored, cache: Path) -> Path:
    """Write the take, with its settings inside, into a folder of its own in `cache`; the same take goes to the same place."""
    key = hashlib.sha256(stored.to_json().encode() + take.audio.tobytes()).hexdigest()
    path = cache / key / f"{stored.settings.method}-seed-{stored.settings.seed}.wav"
    if not path.is_file():
        write_wav(path, take.audio, take.sample_rate, stored.to_json())
    return path
