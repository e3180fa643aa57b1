"""A take within a link: every setting comes back, whatever is in the link, and the link stays short."""

import base64
import json
import random
import string
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from pcg.errors import InputError
from pcg.metrics.intelligibility import read_sentences
from pcg.settings import BLOCKWISE, METHODS, SAMPLERS, SIMILARITIES, Settings, bounds, choices, is_numeric
from pcg.takes.link import LONGEST, SETTINGS, WORDS, pack, unpack
from pcg.takes.stored import LARGEST, Origin, Stored
from pcg.text.reading import MAX_CHARACTERS

ORIGIN = Origin("embedded", "0123456789abcdef" * 4)
STORED = Stored('He said "$HOME" \\ and\nleft 🎈.', "rms", Settings("ssd", theta=0.31, seed=7, adaptive=True), ORIGIN)
LINK_OF_TODAY = "gzAhbGNDdKvNdaDuR9LsGOznFmWSC3Q2pq-AkQBOqjFKKh7-vq4xSgoxMaBMEpOXk5pWovBhfl-HnlIsAA"
BOUND, ADDRESS = 400, "https://owner-lab.hf.space/lab/#take="
AT_THE_TIME: dict[str, object] = {
    "method": "ssd", "theta": 0.31, "lookahead": 3, "beta": 0.3, "temperature": 0.6, "seed": 7, "adaptive": True,
    "similarity": "cosine", "sampler": "plain", "top_k": 0, "top_p": 0.0, "repetition_penalty": 1.0, "hierarchical": False,
    "verification": "token", "lookahead_cost": 0.0,
}  # fmt: skip
OTHERS: dict[str, object] = {
    "method": "sd", "theta": 0.5, "lookahead": 16, "beta": 0.05, "temperature": 1.35, "seed": 4294967295, "adaptive": True,
    "similarity": "both", "sampler": "ras", "top_k": 1000, "top_p": 0.85, "repetition_penalty": 1.15, "hierarchical": True,
    "verification": "block", "lookahead_cost": 0.1234567890123,
}  # fmt: skip


def shortened(stored: Stored) -> Stored:
    """What a link keeps of it."""
    origin = replace(stored.origin, digest=stored.origin.digest[:12], licence="")
    return replace(stored, origin=origin, reference=stored.reference and stored.reference[:12])


def packed(values: object) -> str:
    """Any JSON, packed as a link is."""
    return squeezed(values if isinstance(values, bytes) else json.dumps(values).encode())


def squeezed(content: bytes) -> str:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=WORDS)
    return base64.urlsafe_b64encode(packing.compress(content) + packing.flush()).decode().rstrip("=")


def refused(link: str) -> str:
    with pytest.raises(InputError) as caught:
        unpack(link)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
    return str(caught.value)


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_every_setting_comes_back(name: str) -> None:
    stored = replace(STORED, settings=Settings(**({"method": "pcg"} | {name: OTHERS[name]})))
    assert unpack(pack(stored)).settings == stored.settings != Settings()
    assert set(SETTINGS) == set(Settings.model_fields) == set(OTHERS)


@pytest.mark.parametrize(
    "stored",
    [
        STORED,
        replace(STORED, streamed=True),
        replace(STORED, reference="f" * 64, voice="a recording"),
        replace(STORED, origin=replace(ORIGIN, device="cuda", draft="layers:0,1,27", app="0.2.0", licence="MIT")),
        replace(STORED, text="a" + "🎈" * (MAX_CHARACTERS - 1)),
    ],
    ids=["plain", "streamed", "recording", "origin", "longest"],
)
def test_a_link_gives_back_what_it_holds(stored: Stored) -> None:
    link = pack(stored)
    assert unpack(link) == shortened(stored)
    assert set(link) <= set(string.ascii_letters + string.digits + "-_")
    assert len(link) <= LONGEST


def test_another_voice_is_told() -> None:
    opened = unpack(pack(STORED))
    assert opened.caveats(ORIGIN) == ()
    assert opened.caveats(replace(ORIGIN, digest="f" + ORIGIN.digest[1:])) == ("It was made with other weights.",)
    assert opened.caveats(replace(ORIGIN, device="cuda")) == ("It was made with another kind of device.",)
    assert Stored.from_json(opened.to_json()) == opened


def test_a_link_of_today_can_be_opened_tomorrow() -> None:
    """It was written by FORMAT 1, whose words, order and defaults may never change, whatever the program's are."""
    assert unpack(LINK_OF_TODAY) == replace(shortened(STORED), settings=Settings(**AT_THE_TIME))  # type: ignore[arg-type]


def any_settings(rng: random.Random) -> Settings:
    """Every setting anywhere on its slider."""
    values: dict[str, object] = {}
    for name in filter(is_numeric, Settings.model_fields):
        allowed = bounds(name)
        value = allowed.low + allowed.step * rng.randrange(round((allowed.high - allowed.low) / allowed.step) + 1)
        values[name] = round(value, 3)
    method, sampler = rng.choice(METHODS), rng.choice(SAMPLERS)
    values |= {"method": method, "sampler": sampler, "similarity": rng.choice(SIMILARITIES)}
    values |= {"adaptive": rng.random() < 0.5, "hierarchical": rng.random() < 0.5}
    values["verification"] = rng.choice(choices("verification")) if method in BLOCKWISE else "token"
    return Settings(**(values | ({} if sampler == "plain" else {"repetition_penalty": 1})))  # type: ignore[arg-type]


def sentences(rng: random.Random) -> str:
    return " ".join(rng.sample(read_sentences(), 8))[:200].strip()


def letters(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters + " ", k=200)).strip()


def characters(rng: random.Random) -> str:
    """What nothing can pack."""
    return "".join(rng.choices([chr(c) for c in range(32, 127)], k=200)).strip()


@pytest.mark.parametrize(("text", "most"), [(sentences, 330), (letters, BOUND), (characters, BOUND)])
def test_a_link_of_two_hundred_characters_is_short(text: Callable[[random.Random], str], most: int) -> None:
    rng, longest = random.Random(3), 0
    for _ in range(200):
        origin = replace(ORIGIN, digest=f"{rng.getrandbits(256):064x}")
        voice = rng.choice(["rms", "slt", "awb", "kal16"])
        stored = Stored(text(rng), voice, any_settings(rng), origin, streamed=rng.random() < 0.5)
        link = ADDRESS + pack(stored)
        assert unpack(link.removeprefix(ADDRESS)) == shortened(stored)
        longest = max(longest, len(link))
    assert most - 40 < longest <= most


GOOD: list[object] = [1, [], "embedded", "ASNFZ4mr", "0.1.0", "rms", [], "Hello."]


def changed(place: int, value: object) -> str:
    return packed([*GOOD[:place], value, *GOOD[place + 1 :]])


@pytest.mark.parametrize(
    ("link", "named"),
    {
        "nothing": ("", "link"),
        "not base64": ("<b>!", "link"),
        "other letters": ("äöü", "link"),
        "half a byte": ("abcde", "link"),
        "no deflate": ("_____w", "link"),
        "cut": (pack(STORED)[:-6], "link"),
        "too much": (pack(STORED) + "AAAA", "link"),
        "huge": ("A" * (LONGEST + 1), "32,768 characters"),
        "a bomb": (squeezed(b" " * 16_000_000), "65,536 bytes"),
        "not JSON": (squeezed(b"{"), "link"),
        "not UTF-8": (squeezed(b"\xff\xfe"), "link"),
        "nested": (squeezed(b"[" * 60_000), "link"),
        "nested and closed": (squeezed(b"[" * 9_000 + b"]" * 9_000), "link"),
        "an object": (packed({"text": "Hello."}), "link"),
        "another format": (changed(0, 2), "link"),
        "too few": (packed(GOOD[:-1]), "7 values"),
        "too many": (packed([*GOOD, 1]), "9 values"),
        "settings by name": (changed(1, {"method": "sd"}), "settings"),
        "too many settings": (changed(1, [None] * 16), "settings"),
        "a list for a setting": (changed(1, ["sd", [0.5]]), "theta"),
        "no number": (packed(b'[1,["sd",NaN],"embedded","ASNFZ4mr","0.1.0","rms",[],"Hello."]'), "theta"),
        "a wrong method": (changed(1, ["<img src=x>"]), "method"),
        "a wrong seed": (changed(1, [None, None, None, None, None, 10**30]), "seed"),
        "no model": (changed(2, None), "model"),
        "no digest": (changed(3, 5), "digest"),
        "a long digest": (changed(3, "A" * 40), "digest"),
        "a wrong version": (changed(4, ["0.1.0"]), "app"),
        "a wrong voice": (changed(5, "one\n"), "voice"),
        "a wrong switch": (changed(6, [1]), "streamed"),
        "a wrong device": (changed(6, [None, "/dev/sda"]), "device"),
        "a wrong draft": (changed(6, [None, None, {}]), "draft"),
        "a wrong reference": (changed(6, [None, None, None, "/etc/passwd"]), "reference"),
        "no text": (changed(7, ""), "text"),
        "a wrong text": (changed(7, ["Hello."]), "text"),
        "a long text": (changed(7, "x" * (MAX_CHARACTERS + 1)), "text"),
    }.values(),
)
def test_a_bad_link_is_one_sentence(link: str, named: str) -> None:
    assert named in refused(link)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixteen megabytes in a link no more is made than a take may have."""
    made: list[int] = []
    genuine = zlib.decompressobj

    class Watched:
        def __init__(self, *arguments: object, **options: object) -> None:
            self._genuine = genuine(*arguments, **options)

        def decompress(self, content: bytes, most: int) -> bytes:
            made.append(len(found := self._genuine.decompress(content, most)))
            return found

        def __getattr__(self, name: str) -> object:
            return getattr(self._genuine, name)

    monkeypatch.setattr("pcg.takes.link.zlib.decompressobj", Watched)
    refused(squeezed(b" " * 16_000_000))
    assert made == [LARGEST + 1]
