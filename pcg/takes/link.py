"""A take as a few hundred characters that fit behind the # of an address, which no browser sends to a server.

A JSON array is packed by deflate, with a dictionary of likely words, and written in base64url:

    [FORMAT, settings, model, digest, app, voice, others, text]

`settings` and `others` hold values in a fixed order, null for a default, without the nulls at their end. Of digests 12 of the
64 hexadecimal digits are kept, which tell one voice from another; the licence is left out.

A link of at most 200 ASCII characters of text is at most 400 characters long, whatever they are and whatever the settings, at
an address of up to 30 (tested); English words make it shorter by eighty. A longer text, or one of many other characters, makes
the link as long as it has to be.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from pcg.errors import InputError
from pcg.settings import Settings
from pcg.takes.stored import LARGEST, SHORT_DIGEST, TRAINED, Origin, Stored

FORMAT = 1
LONGEST = 32_768
"""Characters of a link that are read: 5,000 characters of text that nothing packs have 27,000."""
SETTINGS = {
    "method": "pcg", "theta": 0.4, "lookahead": 3, "beta": 0.3, "temperature": 0.6, "seed": 0, "adaptive": False,
    "similarity": "cosine", "sampler": "plain", "top_k": 0, "top_p": 0.0, "repetition_penalty": 1.0, "hierarchical": False,
    "verification": "token", "lookahead_cost": 0.0,
}  # fmt: skip
"""What null means in `settings`, in their order: a new one goes to the end, and nothing changes with the defaults of a program,
or old links would mean something else."""
OTHERS = {"streamed": False, "device": "cpu", "draft": TRAINED, "reference": None, "precision": ""}
WHOLE_LINK = "a link that PCG Lab wrote, copied to its end"

WORDS = (
    b"the of and to in is was that it for with as on his at by this but from they have not are were which there when said one "
    b"all would their what so out up into more then some could them other than about time these two may only like very after "
    b"first any our know well over such down where before much good through should little people [pause:1] [pause:0.5]. The "
    b"quick brown fox jumps over the lazy dog. She He It We You I They There This What But And "
    b'"a recording","folder:","layers:0,1","none","lookup",[null,"cuda",[],"awb",[]"kal16",[true],"0.1.0","slt",[true],"0.1.0",'
    b'"rms",[],""ssd",0."ar",0.false,1.null,null,null,null,0.5,3,0.6,true,"mel",false,"both",true,"fsq",,"ras","eas","block",0.'
    b'],"embedded","[1,["sd",0.'
)
"""What deflate may refer to; the last at the least cost. Links of FORMAT 1 can be read with these very words alone."""
_STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED)
_RAW = -15


def pack(stored: Stored) -> str:
    """`stored` in letters, digits, - and _."""
    origin = stored.origin
    others = {
        "streamed": stored.streamed,
        "device": origin.device,
        "draft": origin.draft,
        "reference": stored.reference and _short(stored.reference),
        "precision": origin.precision,
    }
    values = [
        FORMAT,
        _trimmed(stored.settings.as_dict(), SETTINGS),
        origin.model,
        _short(origin.digest),
        origin.app,
        stored.voice,
        _trimmed(others, OTHERS),
        stored.text,
    ]
    return pack_json(values)


def pack_json(values: object) -> str:
    """Any JSON in letters, digits, - and _."""
    content = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
    return _base64(min((_deflated(content, strategy) for strategy in _STRATEGIES), key=len))


def unpack(packed: str) -> Stored:
    """What `pack` wrote; anything else raises InputError."""
    values = unpack_json(packed)
    if not isinstance(values, list) or values[:1] != [FORMAT]:
        raise InputError("link", packed[:20], WHOLE_LINK)
    if len(values) != 8:
        raise InputError("link", f"{len(values)} values", WHOLE_LINK)
    _, settings, model, digest, app, voice, others, text = values
    made = _named("other values", others, OTHERS)
    origin = Origin(model, _long("digest", digest), made["device"], app, "", made["draft"], made["precision"])
    reference = None if made["reference"] is None else _long("reference", made["reference"])
    knobs = Settings.from_dict(_named("settings", settings, SETTINGS))
    return Stored(text, voice, knobs, origin, reference, made["streamed"])


def unpack_json(packed: str) -> object:
    """What `pack_json` wrote, of which no more is unpacked than a take can need; anything else raises InputError."""
    if len(packed) > LONGEST:
        raise InputError("link", f"{len(packed):,} characters", f"at most {LONGEST:,} characters behind the #")
    try:
        inflating = zlib.decompressobj(_RAW, zdict=WORDS)
        content = inflating.decompress(_bytes("link", packed), LARGEST + 1)
        whole = inflating.eof and not inflating.unused_data
    except zlib.error:
        content, whole = b"", False
    if len(content) > LARGEST:
        raise InputError("link", f"more than {LARGEST:,} bytes when unpacked", f"at most {LARGEST:,} bytes")
    if not whole:
        raise InputError("link", packed[:20], WHOLE_LINK)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError("link", packed[:20], WHOLE_LINK) from error


def _deflated(content: bytes, strategy: int) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, _RAW, 9, strategy, WORDS)
    return packing.compress(content) + packing.flush()


def _trimmed(values: Mapping[str, object], defaults: Mapping[str, object]) -> list[object]:
    """The values by the order of `defaults`."""
    kept = [None if values[name] == default else _shortest(values[name]) for name, default in defaults.items()]
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def _shortest(value: object) -> object:
    return int(value) if isinstance(value, float) and value == int(value) else value


def _named(field: str, values: object, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What `_trimmed` wrote, or anything of its shape."""
    if not isinstance(values, list) or len(values) > len(defaults):
        raise InputError(field, f"a {type(values).__name__}", f"a list of at most {len(defaults)} values")
    return {**defaults, **{name: value for name, value in zip(defaults, values, strict=False) if value is not None}}


def _short(digest: str) -> str:
    return _base64(bytes.fromhex(digest[:SHORT_DIGEST]))


def _long(field: str, short: object) -> str:
    if not isinstance(short, str):
        raise InputError(field, f"a {type(short).__name__}", "a few letters")
    return _bytes(field, short).hex()


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(field: str, written: str) -> bytes:
    if not re.fullmatch("[A-Za-z0-9_-]*", written) or len(written) % 4 == 1:
        raise InputError(field, written[:20], WHOLE_LINK)
    return base64.urlsafe_b64decode(written + "=" * (-len(written) % 4))
