"""A take as a query string, which stands behind the # of an address: no browser sends that part to a server."""

import base64
import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from pcg.errors import InputError
from pcg.settings import Settings, is_numeric
from pcg.takes.stored import LARGEST, SHORT_DIGEST, TRAINED, Origin, Stored

WHOLE_LINK = "a link that PCG Lab wrote, copied to its end"
USUAL = {
    "adaptive": False, "similarity": "cosine", "sampler": "plain", "top_k": 0, "top_p": 0.0, "repetition_penalty": 1.0,
    "hierarchical": False, "verification": "token", "lookahead_cost": 0.0,
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
    values = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=60))
    if "text" not in values:
        return None
    settings = USUAL | {name: _read(name, values[name]) for name in Settings.model_fields if name in values}
    try:
        origin = Origin(values["model"], values["digest"], app=values["app"], **_chosen(values, ORIGIN))
        reference, streamed = values.get("reference"), values.get("streamed") == "true"
        return Stored(values["text"], values["voice"], Settings.from_dict(settings), origin, reference, streamed)
    except KeyError as missing:
        raise InputError("link", f"one without {missing}", WHOLE_LINK) from missing


def _chosen(values: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {name: values.get(name, usual) for name, usual in names.items()}


def _written(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else value


def _read(name: str, written: str) -> object:
    """A value of the setting `name`; what is no number or switch stays text, and `Settings` refuses it."""
    if Settings.model_fields[name].annotation is bool:
        return {"true": True, "false": False}.get(written, written)
    if is_numeric(name) and re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", written):
        return float(written) if re.search(r"[.e]", written) else int(written)
    return written


def pack_json(values: object) -> str:
    """Write any JSON in letters, digits, - and _."""
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


def unpack_json(packed: str) -> object:
    """Read what `pack_json` wrote; anything else raises InputError."""
    if not re.fullmatch("[A-Za-z0-9_-]*", packed) or len(packed) % 4 == 1 or len(packed) > LARGEST:
        raise InputError("link", packed[:20], WHOLE_LINK)
    try:
        return json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    except (ValueError, RecursionError) as error:
        raise InputError("link", packed[:20], WHOLE_LINK) from error
