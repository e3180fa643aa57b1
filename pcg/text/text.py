"""English text -> spoken words -> phonemes: the reading side of the embedded voice.

`normalise` writes numbers, prices, times and abbreviations out as words, so that whatever speaks the corpus and whatever
phonemises a prompt see the very same words. `phonemise` turns those words into espeak-ng phonemes, bundled offline by the
`espeakng-loader` package.
"""

import ctypes
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain

from pcg.errors import InputError, PCGError
from pcg.text.pauses import check_pauses, without_pauses

MAX_CHARACTERS = 5_000
MAX_SPOKEN_CHARACTERS = 8_000
"""Of the words that are said for a text: about nine minutes. A report full of prices and dates is spoken in half as many
characters again as it is written in."""
LONGEST_NUMBER, LONGEST_PRICE = 12, 15
"""Digits of a number that is read as one, and not digit by digit: prices go up to trillions."""
WORD_BREAK = " "
PUNCTUATION = ",.?!;:"
_SEPARATORS = (r"(?<=[.?!;:])\s+", r"(?<=,)\s+", r"\s+")

_TITLES = {
    "Mr": "mister", "Mrs": "missus", "Ms": "miz", "Dr": "doctor", "Prof": "professor", "St": "saint", "Gen": "general",
    "Col": "colonel", "Capt": "captain", "Lt": "lieutenant", "Gov": "governor", "Rev": "reverend", "Mt": "mount",
}  # fmt: skip
_ABBREVIATIONS = {
    "jr.": "junior", "sr.": "senior", "vs.": "versus", "etc.": "et cetera", "e.g.": "for example", "i.e.": "that is",
    "dept.": "department", "approx.": "approximately",
}  # fmt: skip
_SYMBOLS = {"&": " and ", "%": " percent ", "+": " plus ", "=": " equals ", "@": " at ", "#": " number ", "°": " degrees "}
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
}
_PRICE = r"([$£€])\s?([\d,]*\d)(?:\.(\d+))?(\s(?:thousand|million|billion|trillion)\b)?"
_LETTERS = dict(zip(
    "abcdefghijklmnopqrstuvwxyz",
    "ay bee see dee ee eff jee aitch eye jay kay ell em en oh pee cue are ess tee you vee double-you ex why zee".split(),
    strict=True,
))  # fmt: skip


def check_text(text: str) -> str:
    """Return `text` stripped, or raise InputError if it is empty, too long as written or as spoken, not English text, holds
    control characters, or a pause that is none (`pcg.text.pauses`)."""
    stripped = text.strip()
    if len(stripped) > MAX_CHARACTERS:
        raise InputError("text", f"{len(stripped):,} characters", f"1 to {MAX_CHARACTERS:,} characters")
    check_pauses(stripped)
    words = without_pauses(stripped)
    if not words.strip():
        raise InputError("text", text, "some English text")
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\r\t" for c in stripped):
        raise InputError("text", ascii(stripped[:40]), "free of control characters")
    letters = [c for c in words if c.isalpha()]
    latin = [c for c in letters if "LATIN" in unicodedata.name(c, "")]
    if len(latin) < 0.8 * len(letters) or not any(c.isalnum() and c.isascii() for c in words):
        raise InputError("text", stripped[:40], "English text in Latin letters or digits")
    if (spoken := len(normalise(stripped))) > MAX_SPOKEN_CHARACTERS:
        raise InputError("text", f"{spoken:,} characters when spoken", f"at most {MAX_SPOKEN_CHARACTERS:,}")
    return stripped


def wordless(text: str) -> InputError:
    """What to raise where nothing of `text` can be spoken."""
    return InputError("text", text[:40], "one with at least one English word that can be spoken")


def cut(text: str, length: Callable[[str], float], longest: float) -> list[str]:
    """Cut `text` into pieces of at most `longest` each: at sentence ends, else at commas, else at words, else between the words
    that it is spoken as, else amid a word. Pieces that say nothing are left out, and so nothing may be left.

    length: of a piece, in the unit of `longest`; it raises PCGError for a piece that says nothing.
    """

    def size(piece: str) -> float:
        try:
            return length(piece)
        except PCGError:
            return 0.0

    def filled(parts: Iterable[str]) -> Iterator[str]:
        """Neighbours together, as many as fit."""
        current = ""
        for part in parts:
            joined = f"{current} {part}".strip()
            if current and size(joined) > longest:
                yield current
                joined = part
            current = joined
        yield current

    def halved(word: str) -> Iterator[str]:
        middle = len(word) // 2
        return chain(halved(word[:middle]), halved(word[middle:])) if middle and size(word) > longest else iter([word])

    def at(separator: str) -> Callable[[str], Iterator[str]]:
        return lambda piece: filled(re.split(separator, piece))

    pieces = [text]
    for divide in (*map(at, _SEPARATORS), lambda piece: filled(normalise(piece).split()), halved):
        pieces = [part for piece in pieces for part in (divide(piece) if size(piece) > longest else [piece])]
    return [piece for piece in pieces if size(piece)]


def normalise(text: str) -> str:
    """Write `text` as lower-case spoken words and the punctuation ``, . ? ! ; :`` (numbers, prices, times, abbreviations);
    pauses are no words, neither for who reads nor for who judges."""
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " and ", without_pauses(text).replace("’", "'").replace("‘", "'"))
    text = re.sub(r"(\d+)⁄(\d+)", _fraction, unicodedata.normalize("NFKD", text))
    text = re.sub(_PRICE, _price, text, flags=re.IGNORECASE).replace("£", " pounds ").replace("€", " euros ")
    text = text.replace("—", ", ").replace("–", ", ").encode("ascii", "ignore").decode()
    # "no." and "col." end ordinary sentences too: a title stands before a name, a number sign before a figure.
    text = re.sub(r"\b([A-Z][a-z]+)\.(?=\s+[A-Z])", lambda m: _TITLES.get(m[1], m[0]), text)
    text = re.sub(r"\bno\.(?=\s*\d)", "number", text.lower())
    text = re.sub(r"[a-z.]+\.", lambda m: _ABBREVIATIONS.get(m[0], m[0]), text)
    text = re.sub(r"\b(\d{1,2}):(\d\d)\b", _clock, text)
    for symbol, words in _SYMBOLS.items():
        text = text.replace(symbol, words)
    text = re.sub(r"\b(\d+)(st|nd|rd|th)\b", _ordinal, text)
    text = re.sub(r"\d+(?:,\d{3})*(?:\.\d+)?", _figure, text)
    text = re.sub(r"\b(?:[a-z]\.){2,}", lambda m: m[0].replace(".", " "), text)
    text = re.sub(r"\b[a-z]\b(?<![aio])(?!')", lambda m: _LETTERS[m[0]] if _standalone(m) else m[0], text)
    text = text.replace("--", ", ").replace("-", " ")
    text = re.sub(r"[^a-z',.?!;: ]+", " ", text)
    text = re.sub(r"\s*([,.?!;:])[\s,.?!;:]*", r"\1 ", text)
    text = re.sub(r"(?<![a-z])'|'(?![a-z])", " ", text)
    return re.sub(r"\s+", " ", text).strip(" ,;:")


def phonemise(words: str) -> list[str]:
    """Turn normalised `words` into phoneme symbols: IPA with stress, ``' '`` between words, punctuation as itself."""
    symbols: list[str] = []
    for clause, mark in re.findall(r"([^,.?!;:]+)([,.?!;:]?)", words):
        spoken = _espeak().phonemes(clause.strip())
        for word in spoken.split():
            symbols += [p for p in word.split("_") if p] + [WORD_BREAK]
        if mark and symbols:
            symbols[-1] = mark
    return symbols[:-1] if symbols[-1:] == [WORD_BREAK] else symbols


def _standalone(match: re.Match[str]) -> bool:
    before = match.string[match.start() - 1] if match.start() else " "
    return before not in "'"


def _number(value: int | float, to: str = "cardinal") -> str:
    from num2words import num2words

    return str(num2words(value, to=to)).replace("-", " ").replace(",", "")


def _count(digits: str, longest: int = LONGEST_NUMBER) -> str:
    """A whole number as words, one of more than `longest` digits digit by digit."""
    return _number(int(digits)) if len(digits) <= longest else " ".join(_number(int(digit)) for digit in digits)


def _figure(match: re.Match[str]) -> str:
    digits = match[0].replace(",", "")
    whole, _, decimals = digits.partition(".")
    if len(digits) > LONGEST_NUMBER:
        return _count(whole) + (f" point {' '.join(map(_count, decimals))}" if decimals else "")
    if decimals:
        return _number(float(digits))
    value = int(digits)
    is_year = "," not in match[0] and len(digits) == 4 and 1100 <= value <= 2099 and not 2000 <= value <= 2009
    return _number(value, "year") if is_year else _number(value)


def _ordinal(match: re.Match[str]) -> str:
    """Of a number that is read digit by digit the last digit alone is one."""
    if len(match[1]) <= LONGEST_NUMBER:
        return _number(int(match[1]), "ordinal")
    return f"{' '.join(map(_count, match[1][:-1]))} {_number(int(match[1][-1]), 'ordinal')}"


def _price(match: re.Match[str]) -> str:
    whole, decimals, scale = match[2].replace(",", ""), match[3] or "", match[4] or ""
    one, many, small_one, small = _CURRENCIES[match[1]]
    if scale or len(decimals) not in (0, 2):
        point = f" point {' '.join(map(_count, decimals))}" if decimals else ""
        return f"{_count(whole, LONGEST_PRICE)}{point}{scale} {many}"
    spoken, cents = f"{_count(whole, LONGEST_PRICE)} {one if whole.lstrip('0') == '1' else many}", int(decimals or 0)
    return spoken + (f" and {_number(cents)} {small_one if cents == 1 else small}" if cents else "")


def _fraction(match: re.Match[str]) -> str:
    """Of a single character, such as ½."""
    above, below = int(match[1]), int(match[2])
    part = {2: "half", 4: "quarter"}.get(below) or (_number(below, "ordinal") if below else "none")
    return f"{_number(above)} {part}{'s' if above != 1 else ''}"


def _clock(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    if minute == 0:
        return f"{_number(hour)} o'clock"
    return f"{_number(hour)} {'oh ' if minute < 10 else ''}{_number(minute)}"


class _Espeak:
    """The bundled espeak-ng library. It keeps global state in C, so calls are serialised."""

    _UTF8, _IPA, _SEPARATOR = 1, 0x02, ord("_") << 8
    _RETRIEVAL = 1

    def __init__(self) -> None:
        import espeakng_loader

        self._lock = threading.Lock()
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        data = espeakng_loader.get_data_path().encode()
        if self._library.espeak_Initialize(self._RETRIEVAL, 0, data, 0) < 0:
            raise RuntimeError("espeak-ng could not start from its bundled data")
        self._library.espeak_SetVoiceByName(b"en-us")

    def phonemes(self, clause: str) -> str:
        pointer = ctypes.c_char_p(clause.encode())
        parts = []
        with self._lock:
            while pointer.value:
                spoken = self._library.espeak_TextToPhonemes(ctypes.byref(pointer), self._UTF8, self._IPA | self._SEPARATOR)
                parts.append((spoken or b"").decode())
        return " ".join(parts)


@cache
def _espeak() -> _Espeak:
    return _Espeak()
