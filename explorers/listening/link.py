"""A listening test as a link: whoever opens it gets the same texts, systems, voice, seed and order, and hears the same takes.

The link holds the form's values and the stored settings that are compared, packed as the link of a take is.
"""

from dataclasses import asdict, fields, replace

from explorers.listening.actions import Kept, ListeningRequest, name_of
from pcg.errors import InputError
from pcg.saved_take import WHOLE_LINK, pack_json, unpack_json
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer

FORMAT = 2
WITHOUT_SIMILARITY = 1
"""The format of links of before a test had a similarity measure."""
MARK = "#test="
NAMES = tuple(field.name for field in fields(ListeningRequest))
# Of the voice's digest, enough to tell another voice.
DIGEST = 12


def write_test(request: ListeningRequest, kept: Kept, digest: str, address: str) -> str:
    """A link to this page at `address`. digest: that of the voice. Raises InputError for a test that could not be prepared."""
    systems = request.systems(kept)
    request.plan(list(systems), 1)
    own = [name for name in systems if name not in choices({})]
    # A preset is known by its name in one browser alone.
    called = {name: name_of(systems[name]) if name in own else name for name in systems}
    stored = replace(
        request,
        lines=request.lines if request.source == "own" else "",
        compared=list(called.values()),
        reference=called.get(request.reference, request.reference),
    )
    own = [{**asdict(systems[name]), "settings": systems[name].settings.as_dict()} for name in own]
    return f"{address}/{MARK}{pack_json([FORMAT, digest[:DIGEST], list(asdict(stored).values()), own])}"


def read_test(opened: str, synthesizer: Synthesizer) -> tuple[ListeningRequest, Kept, str] | None:
    """What `write_test` wrote, and the digest of its voice; None where the address holds no test. Raises InputError for a bad
    one, and for what this voice cannot do."""
    _, mark, packed = opened.partition(MARK)
    if not mark:
        return None
    values = unpack_json(packed)
    if not isinstance(values, list) or values[:1] not in ([FORMAT], [WITHOUT_SIMILARITY]) or len(values) != 4:
        raise InputError("link", packed[:20], WHOLE_LINK)
    version, digest, written, own = values
    if version == WITHOUT_SIMILARITY and isinstance(written, list):
        written = [*written, Settings().similarity]
    if not isinstance(digest, str) or not isinstance(written, list) or len(written) != len(NAMES) or not isinstance(own, list):
        raise InputError("link", packed[:20], WHOLE_LINK)
    kept = {name_of(each): each for each in (Settings.from_dict(_mapping(one)) for one in own)}
    request = _checked(dict(zip(NAMES, written, strict=True)), kept, synthesizer)
    return request, kept, digest


def _checked(values: dict[str, object], kept: Kept, synthesizer: Synthesizer) -> ListeningRequest:
    """Whatever a control may hold, each of its kind and in its range."""
    for name, kind in (("design", str), ("source", str), ("lines", str), ("voice", str), ("anchor", bool), ("trials", int)):
        if not isinstance(values[name], kind):
            raise InputError(name, str(values[name])[:40], {str: "text", bool: "true or false", int: "a whole number"}[kind])
    compared, reference = values["compared"], values["reference"]
    if not isinstance(compared, list) or not all(isinstance(name, str) for name in compared):
        raise InputError("what is compared", str(compared)[:40], "a list of names")
    if reference is not None and not isinstance(reference, str):
        raise InputError("reference", str(reference)[:40], "a name")
    Settings.from_dict({name: values[name] for name in ("theta", "similarity", "lookahead", "beta", "temperature", "seed")})
    synthesizer.voice.reference(values["voice"])
    request = ListeningRequest(**values)
    request.plan(list(request.systems(kept)), len(request.texts(synthesizer)))
    return request


def choices(kept: Kept) -> list[str]:
    """What can be compared: the methods, presets, and stored settings."""
    methods = [method.upper() for method in METHODS]
    return [*methods, *(name for name in kept if name not in methods)]


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError("stored settings", str(value)[:40], "names and values")
    return value
