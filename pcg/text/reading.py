"""Pauses that are written into a text: `[pause:1]` is one second of silence."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from pcg.errors import InputError, PCGError

if TYPE_CHECKING:
    from hibari.g2p import G2P


SECONDS = (0.2, 5.0)
MOST = 20
ALLOWED = "[pause:0.2] to [pause:5], in seconds"

_MARK = re.compile(r"\[pause:(\d{1,3}(?:\.\d{1,6})?)\]", re.ASCII)
# Written for a pause: must not be read out as a word.
_ALIKE = re.compile(r"\[\s*pause\s*(?:\]|:[^\[\]]*\]?)", re.IGNORECASE)


def check_pauses(text: str) -> None:
    """Raise InputError for more than `MOST` pauses, or for what is written like a pause but is none of 0.2 to 5 seconds."""
    found = [mark[0] for mark in _ALIKE.finditer(text)]
    for mark in found:
        known = _MARK.fullmatch(mark)
        if not known or not SECONDS[0] <= float(known[1]) <= SECONDS[1]:
            raise InputError("pause", mark[:40], ALLOWED)
    if len(found) > MOST:
        raise InputError("text", f"one of {len(found)} pauses", f"one of at most {MOST}")


def without_pauses(text: str) -> str:
    """Return the words alone."""
    return _MARK.sub(" ", text)


def at_pauses(text: str) -> Iterator[str | float]:
    """Return the parts of a checked `text` between its pauses, blank ones left out, and the pauses in seconds."""
    words_and_seconds = _MARK.split(text)
    for place, part in enumerate(words_and_seconds):
        if place % 2:
            yield float(part)
        elif part.strip():
            yield part.strip()


MAX_CHARACTERS = 5_000
MAX_PHONEMES = 8_000
"""Phonemes and pauses between words of one text: about nine minutes."""
WORD_BREAK = " "
PUNCTUATION = ",.?!;:"
LEAST_WORDS = 3
"""A piece of a longer text has at least so many words: one word alone is often spoken badly."""
_LONGEST_NUMBER = 12
_LONGEST_WORD = 30
_SEPARATORS = (r"(?<=[.?!;:])\s+", r"(?<=,)\s+", r"\s+")
_GIVEN = re.compile(r"\[([^\[\]()]+)\]\(/([^()/]+)/\)")
_STRESS = "ˈˌ"
_AS_PUNCTUATION = {"—": ",", "…": "."}

_ENDINGS = "com|org|net|edu|gov|io|ai|dev|uk|de|fr|eu|us|ca|pdf|txt|csv|json|xml|html|md|py|js|zip|png|jpg|gif|wav|mp3"
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_SCALES |= {scale: scale for scale in ("thousand", "million", "billion", "trillion")}
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound"}
_FORMULAS = "H2O2|H2O|CO2|CO|N2O|NO2|SO2|NH3|CH4|O2|O3|H2|N2"
_STREETS = {"Dr": "Drive", "St": "Street", "Ave": "Avenue", "Rd": "Road", "Blvd": "Boulevard", "Ln": "Lane", "Ct": "Court"}
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_CHAPTER = re.compile(
    r"\b((?:page|chapter|part|section|volume|act|scene)s? )(?!l\b)((?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3}))(?<=\w)\b(?!['’])",
    re.IGNORECASE,
)
_WORDS = {
    "≥": " greater than or equal to ", "≤": " less than or equal to ", "≠": " not equal to ", "≈": " about ", "×": " times ",
    "÷": " divided by ", "±": " plus or minus ", "→": " to ", "§": " section ", "%": " percent ",
    "’": "'", "‘": "'", "“": "", "”": "", '"': "",
}  # fmt: skip
_RESPELLED = {
    r"\betc\b\.?": "et cetera",
    r"\be\.g\.,?": "for example,",
    r"\bi\.e\.,?": "that is,",
    r"\b([CF])#": r"\1 sharp",
    r"\bO'Neill\b": "O Neal",
    r"\bZo[eë]\b": "Zoey",
}
_METAL = re.compile(r"\blead (?=(?:pipe|paint|poison|weight|ore|solder|crystal|shot)\w*\b)")


def check_text(text: str, field: str = "text") -> str:
    """Check a text that is to be spoken, and that errors call by the name of its `field`.

    Returns:
        The text without blanks at its ends.

    Raises:
        InputError: if it is empty, longer than MAX_CHARACTERS or MAX_PHONEMES, not English, or holds control
            characters or a bad pause (`pcg.text.reading`).
    """
    stripped = text.strip()
    if len(stripped) > MAX_CHARACTERS:
        raise InputError(field, f"{len(stripped):,} characters", f"1 to {MAX_CHARACTERS:,} characters")
    check_pauses(stripped)
    words = without_pauses(stripped)
    if not words.strip():
        raise InputError(field, text, "some English text")
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\r\t" for c in stripped):
        raise InputError(field, stripped[:40], "free of control characters")
    plain = _GIVEN.sub(r"\1", words)
    if "](/" in plain:
        raise InputError(field, stripped[:40], "one whose given words are [word](/phonemes/)")
    letters = [c for c in plain if c.isalpha()]
    if len(unread(plain)) > 0.2 * len(letters) or not any(c.isalnum() and c.isascii() for c in plain):
        raise InputError(field, stripped[:40], "English: letters from a to z, or digits")
    if (spoken := spoken_length(stripped)) > MAX_PHONEMES:
        raise InputError(field, f"{spoken:,} phonemes when spoken", f"at most {MAX_PHONEMES:,}")
    return stripped


def unread(text: str) -> str:
    """Return the letters of `text` that no English reader knows, in their order: they are left out of the speech."""
    return "".join(c for c in text if c.isalpha() and "LATIN" not in unicodedata.name(c, ""))


def wordless(text: str) -> InputError:
    """Make the error for a text that holds nothing to speak."""
    return InputError("text", text[:40], "one with at least one English word that can be spoken")


def spoken_length(text: str) -> int:
    """Count the phonemes and word breaks that a reader speaks for `text`; zero where it holds no word."""
    symbols = phonemise(normalise(plain_words(text)))
    return len(symbols) if any(s not in PUNCTUATION and s != WORD_BREAK for s in symbols) else 0


def plain_words(text: str) -> str:
    """Return `text` without pauses and without the phonemes of given words, as a reader or a judge sees it."""
    return _GIVEN.sub(r"\1", without_pauses(text))


def given_phonemes(text: str) -> list[str]:
    """Return the symbols of the words that `text` gives by their phonemes."""
    return [symbol for word in _GIVEN.finditer(text) for symbol in phonemise(word[0])]


def cut(text: str, length: Callable[[str], float], longest: float) -> list[str]:
    """Cut a text into pieces: at ends of sentences, else at commas, else between words, else within a word.

    A last piece of fewer than LEAST_WORDS words takes words from the piece before it.

    Args:
        text: a checked text.
        length: gives the length of a piece; raises PCGError for a piece that says nothing.
        longest: greatest length of a piece, in the unit of `length`.

    Returns:
        The pieces that say something; a piece may be a fifth longer than `longest` after it was given words.
    """

    def size(piece: str) -> float:
        try:
            return length(piece)
        except PCGError:
            return 0.0

    def filled(parts: Iterable[str]) -> Iterator[str]:
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
    return _lengthened([piece for piece in pieces if size(piece)], size, 1.2 * longest)


def _lengthened(pieces: list[str], size: Callable[[str], float], longest: float) -> list[str]:
    for i in range(len(pieces) - 1, 0, -1):
        before, piece = pieces[i - 1].split(), pieces[i].split()
        lacking = LEAST_WORDS - len(piece)
        if lacking > 0 and len(before) >= LEAST_WORDS + lacking and not before[-1].endswith((".", "?", "!")):
            joined = " ".join([*before[-lacking:], *piece])
            if size(joined) <= longest:
                pieces[i - 1 : i + 1] = [" ".join(before[:-lacking]), joined]
    return pieces


def normalise(text: str) -> str:
    """Rewrite what the G2P reads wrongly as words; keep pauses out, given words in, and close nothing.

    Capitals and punctuation stay, because the G2P reads them. Numbers, times and units that it knows stay as they are.
    """
    parts, end = [], 0
    text = _METAL.sub("[lead](/lˈɛd/) ", without_pauses(text))
    for given in _GIVEN.finditer(text):
        parts += [_normalise(text[end : given.start()]), given[0]]
        end = given.end()
    joined = " ".join([*parts, _normalise(text[end:])])
    joined = re.sub(r"\s+(?=[,.?!;:])", "", re.sub(r"\s+", " ", joined))
    return re.sub(r"[,;:]+(?=[.?!])", "", joined).strip(" ,;:")


def phonemise(words: str) -> list[str]:
    """Turn normalised words into phoneme symbols: a stress mark stands with its vowel, ``' '`` between words."""
    symbols, mark = [], ""
    for sound in _g2p()(words):
        sound = _AS_PUNCTUATION.get(sound, sound)
        if sound in _STRESS:
            mark = sound
        elif not (sound == WORD_BREAK and symbols[-1:] == [WORD_BREAK]):
            symbols.append(mark + sound)
            mark = ""
    while symbols[-1:] == [WORD_BREAK]:
        symbols.pop()
    return symbols


@cache
def _g2p() -> "G2P":
    from hibari.g2p import G2P  # 60 MB and half a second, for those who speak alone

    return G2P(british=False)


def _normalise(text: str) -> str:
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)
    text = "".join(unicodedata.normalize("NFKD", c) if c in "½¼¾" or "⅐" <= c <= "⅞" else c for c in text).replace("⁄", "/")
    # Feet and inches, before quotation marks are dropped.
    text = re.sub(r"\b(\d+)['′’]\s?(\d+)(?:[\"″”]|'')", r"\1 foot \2", text)
    text = re.sub(r"\b(\d+)[\"″]", r"\1 inches", text)
    for sign, words in _WORDS.items():
        text = text.replace(sign, words)
    for pattern, words in _RESPELLED.items():
        text = re.sub(pattern, words, text)
    text = _numbers(_names(_addresses(text)))
    text = re.sub(r"[\[\](){}]+", ", ", re.sub(r"\(\)", "", text))
    text = "".join(c for c in text if not c.isalpha() or "LATIN" in unicodedata.name(c, ""))
    # The G2P's time grows with the cube of a word's length.
    part = re.compile(rf".{{1,{_LONGEST_WORD // 2}}}")
    return re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda m: " ".join(part.findall(m[0])), text)


def _addresses(text: str) -> str:
    """Web and mail addresses, files and numbers of computers."""
    text = re.sub(r"\bhttps?://(?:www\.)?", "", text)
    text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", lambda m: " ".join(map(_digit, m[0])).replace(".", "dot"), text)
    dotted = rf"[\w-]+(?:\.[\w-]+)*\.(?:{_ENDINGS})\b"
    text = re.sub(rf"([\w.+-]+)@({dotted})", lambda m: f"{m[1].replace('.', ' dot ')} at {m[2]}", text)
    return re.sub(rf"{dotted}(?:/[\w./-]*)?", _spelled, text)


def _spelled(match: re.Match[str]) -> str:
    address = match[0].rstrip("./-")
    for sign, word in ((".", " dot "), ("/", " slash "), ("_", " "), ("-", " ")):
        address = address.replace(sign, word)
    ending = re.compile(r"\b(pdf|csv|json|xml|html|md|py|js|png|jpg|gif|mp3|io|ai|uk|eu|us|ca)\b")
    return ending.sub(lambda m: m[0].upper(), address) + match[0][len(match[0].rstrip("./-")) :]


def _names(text: str) -> str:
    """Streets, chapters in Roman figures, formulas."""
    ends = r"(?=\s+[a-z]|\s*$|\s*[,;:?!]|\s*\.)"
    text = re.sub(rf"\b([A-Z][a-z]+) ({'|'.join(_STREETS)})\.{ends}", lambda m: f"{m[1]} {_STREETS[m[2]]}", text)
    text = _CHAPTER.sub(_chapter, text)
    return re.sub(rf"\b(?:{_FORMULAS})\b", lambda m: " ".join(_digit(c) if c.isdigit() else c for c in m[0]), text)


def _numbers(text: str) -> str:
    """Prices with a scale, telephone numbers, versions, decimals, years, dates, fractions and sizes."""
    scales, text = "|".join(_SCALES), re.sub(r"(?<=[$€£])(?=\.\d)", "0", text)
    text = re.sub(rf"([$€£])\s?(\d[\d,]*)(\.\d+)?\s?({scales})\b", _price, text, flags=re.IGNORECASE)
    text = re.sub(r"(?<![\w-])(?:\+?\d{1,3}[- ])?(?:\(\d{3}\) ?|\d{3}[- ])\d{3,4}-\d{4}\b", _digits, text)
    text = re.sub(r"\b(?<=[Cc]all )(?:911|999|112)\b|\b(?<=[Dd]ial )(?:911|999|112)\b", _digits, text)
    text = re.sub(r"\b[vV](?=\d)", "v ", text)
    text = re.sub(r"\b\d+(?:\.\d+){2,}\b", lambda m: " dot ".join(_cardinal(int(n)) for n in m[0].split(".")), text)
    text = re.sub(r"\bv (\d{1,3})\.(\d{1,3})\b", lambda m: f"v {_cardinal(int(m[1]))} point {_cardinal(int(m[2]))}", text)
    text = re.sub(r"(?<![\w.])\.(\d{1,12})\b", lambda m: f"point {_digits(m)}", text)
    text = re.sub(r"\b(1\d{3}|20\d\d)\s?[-–—]\s?(1\d{3}|20\d\d)\b", r"\1 to \2", text)
    text = re.sub(r"\b(20\d\d|19\d\d)/(\d{1,2})/(\d{1,2})\b", r"\1-\2-\3", text)
    text = re.sub(r"\b(20\d\d|19\d\d)-(\d)-", r"\1-0\2-", text)
    text = re.sub(r"\b(\d+)\s(\d)/(\d{1,2})\b", r"\1 and \2/\3", text)
    text = re.sub(r"\b(\d{2,3})/(\d{2,3})\b(?!/)", r"\1 \2", text)
    text = re.sub(r"\b(\d+)\s?[x×]\s?(?=\d)", r"\1 by ", text)
    text = re.sub(r"(?<=\d) - (?=\d+ ?=)", " minus ", text)
    return re.sub(rf"\d[\d,]{{{_LONGEST_NUMBER},}}\d", _digits, text)


def _price(match: re.Match[str]) -> str:
    whole, scale = match[2].replace(",", ""), _SCALES[match[4].lower()]
    amount = _cardinal(int(whole)) if len(whole) <= _LONGEST_NUMBER else " ".join(map(_digit, whole))
    point = f" point {' '.join(map(_digit, match[3][1:]))}" if match[3] else ""
    before, behind = match.string[: match.start()], match.string[match.end() :]
    is_adjective = re.search(r"\b[Aa]n?\s$", before) and re.match(r"[\s-][a-z]", behind)
    return f"{amount}{point} {scale} {_CURRENCIES[match[1]]}{'' if is_adjective else 's'}"


def _digits(match: re.Match[str]) -> str:
    return " ".join(_digit(c) for c in match[0] if c.isdigit())


def _digit(digit: str) -> str:
    return _cardinal(int(digit)) if digit.isdigit() else digit


def _cardinal(number: int) -> str:
    from hibari.g2p.numbers import cardinal

    return str(cardinal(number))


def _chapter(match: re.Match[str]) -> str:
    """Read "Act IV" as a number, and "the part I like" as it stands."""
    if match[2] in "iI" and match[1].islower() and re.match(r"\s+\w", match.string[match.end() :]):
        return match[0]
    values = [_ROMAN[c] for c in match[2].lower()]
    return match[1] + _cardinal(sum(-v if v < max(values[i:]) else v for i, v in enumerate(values)))
