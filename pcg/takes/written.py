"""A take without its sound, as JSON: every round with its tests and times, so that it can be shown and measured again later."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from pcg.rules import Test
from pcg.settings import Settings
from pcg.takes.take import Round, Take

FIGURES = ("text", "voice", "hit_limit", "prefill_ms", "codec_ms", "wall_seconds", "sample_rate")
SEQUENCES = ("tokens", "kinds", "group_sizes", "drafted")


def write_take(take: Take) -> dict[str, object]:
    """`take` without its sound, and without the beams of a hierarchical search; ready for JSON."""
    figures = {name: getattr(take, name) for name in FIGURES}
    figures["pauses"] = [list(pause) for pause in take.pauses]
    return {**figures, "settings": take.settings.as_dict(), "rounds": [asdict(round_) for round_ in take.rounds]}


def read_take(values: Mapping[str, object], audio: np.ndarray) -> Take:
    """What `write_take` wrote, with its sound `[N]`; raise KeyError, TypeError, ValueError or InputError if it is not that."""
    rounds = tuple(map(_read_round, values["rounds"]))
    figures = {name: values[name] for name in FIGURES}
    pauses = tuple((int(before), float(seconds)) for before, seconds in values.get("pauses", ()))  # older takes have none
    return Take(settings=Settings.from_dict(values["settings"]), rounds=rounds, audio=audio, pauses=pauses, **figures)


def pack_take(take: Take) -> bytes:
    """`write_take` as a few kilobytes, for a server that remembers the takes of many visitors."""
    return zlib.compress(json.dumps(write_take(take), separators=(",", ":")).encode())


def unpack_take(packed: bytes, audio: np.ndarray) -> Take:
    return read_take(json.loads(zlib.decompress(packed)), audio)


def _read_round(values: Mapping[str, object]) -> Round:
    lists = {name: tuple(values[name]) for name in SEQUENCES}
    if len({len(lists[name]) for name in ("tokens", "kinds", "group_sizes")}) > 1:
        raise ValueError("tokens, kinds and group sizes do not fit together")
    return Round(**{**values, **lists, "tests": tuple(Test(**test) for test in values["tests"])})
