"""Sentences for the corpus: prose, dictionary examples and definitions, everyday templates, and short texts. Capitals and
punctuation stay, because the G2P reads them. A hash decides whether a sentence or a rare word is held out."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pcg.metrics.intelligibility import SECTIONS, read_sentences

WORDNET = Path("/usr/share/wordnet")
GLOSS_SHARE, TEMPLATE_SHARE, SHORT_SHARE = 0.5, 0.3, 0.06
"""Of the dictionary's sentences; of the others for each sentence of prose and dictionary together."""
SAID_ALONE = (
    "yes no okay hello hi bye thanks please sorry stop go wait now here there why how what who when where maybe sure right \
left up down in out on off one two three four five six seven eight nine ten hey oh ah wow good great fine done next back help \
start come run we".split()
)


@dataclass(frozen=True)
class SentencePool:
    """Normalised sentences: for training, held out whole, and held out because they contain a held-out word."""

    train: list[str]
    held_out_sentences: list[str]
    held_out_word_sentences: list[str]


def build_pool(prose: Path, seed: int) -> SentencePool:
    """Gather every source, normalise, leave out evaluation sentences, and split. prose: a file of one sentence a line; the
    dictionary is Debian's package `wordnet-base`."""
    rng = random.Random(seed)
    glosses = [gloss for gloss in _wordnet() if rng.random() < GLOSS_SHARE]
    written = map(_sentence, [*_prose(prose), *glosses])
    sentences = list(dict.fromkeys(s for s in written if 3 <= len(s.split()) <= 24 and len(s) <= 130))
    n = len(sentences)
    sentences += [_from_template(rng) for _ in range(int(n * TEMPLATE_SHARE))]
    sentences += [_short(rng, sentences[rng.randrange(n)]) for _ in range(int(n * SHORT_SHARE))]
    rng.shuffle(sentences)
    rare = held_out_words(sentences)
    # No training may hear a sentence of the evaluation.
    judged = frozenset(map(plain, read_sentences(*SECTIONS, "more-everyday", "more-balanced", "twisters")))
    train, whole, words = [], [], []
    for sentence in (sentence for sentence in dict.fromkeys(sentences) if plain(sentence) not in judged):
        bucket = words if rare.intersection(words_of(sentence)) else whole if is_held_out(sentence) else train
        bucket.append(sentence)
    return SentencePool(train, whole, words)


def plain(sentence: str) -> str:
    """Return the words of a sentence without capitals and punctuation."""
    return " ".join(re.findall(r"[a-z0-9']+", sentence.lower()))


def held_out_words(sentences: Iterable[str]) -> frozenset[str]:
    """Rare words (at most 20 uses) that a hash picks, one in forty: common words stay in training."""
    counts = Counter(word for sentence in sentences for word in words_of(sentence))
    return frozenset(w for w, n in counts.items() if n <= 20 and len(w) > 3 and _bucket(w, 40) == 0)


def is_held_out(sentence: str) -> bool:
    return _bucket(sentence.lower(), 100) == 0


def words_of(sentence: str) -> list[str]:
    return re.findall(r"[a-z']+", sentence.lower())


def _bucket(text: str, n: int) -> int:
    return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:4], "big") % n


def _sentence(text: str) -> str:
    """Return a text on one line with a capital and an end; "" for what is no English sentence."""
    text = " ".join(text.split()).strip(" ,;:-")
    if not text or not text.isascii() or re.search(r"[^A-Za-z0-9 ,.?!;:'$%&-]", text) or not re.search("[A-Za-z]{2}", text):
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def _short(rng: random.Random, sentence: str) -> str:
    """Draw one to three words: said alone, or a piece of a sentence."""
    words = re.findall(r"[A-Za-z']+", sentence)
    if rng.random() < 0.4 or len(words) < 3:
        return rng.choice(SAID_ALONE).capitalize() + rng.choice(".?!.")
    count, first = rng.choice((1, 2, 3)), rng.randrange(len(words) - 2)
    return " ".join(words[first : first + count]).capitalize() + rng.choice(".?!.")


def _prose(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        words: list[str] = []
        for piece in re.split(r"(?<=[,;:.?!])\s+", line):
            if len(words) + len(piece.split()) > 18 and len(words) >= 3:
                yield " ".join(words)
                words = []
            words += piece.split()
        yield " ".join(words)


def _wordnet() -> Iterator[str]:
    for part in ("noun", "verb", "adj", "adv"):
        for line in (WORDNET / f"data.{part}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            gloss = line.split("|", 1)[1]
            yield from re.findall(r'"([^"]+)"', gloss)
            yield re.sub(r"\([^)]*\)", "", gloss.split('"')[0]).split(";")[0]


_WORDS = {
    "first": "Anna Ben Carla David Emma Frank Grace Henry Ivy Jack Karen Leo Maria Nathan Olivia Peter Rachel Sam Tina Victor",
    "last": "Smith Jones Taylor Brown Wilson Clark Lewis Walker Hall Young King Wright Green Baker Adams Nelson Carter",
    "place": "London Paris Boston Chicago Denver Dublin Berlin Madrid Toronto Sydney Tokyo Cairo Vienna Oslo Rome Seattle",
    "thing": "apples bread cheese butter coffee tea sugar rice soup eggs milk bananas onions potatoes salad cake juice books "
    "pencils socks gloves towels candles batteries flowers letters tickets keys maps chairs lamps boxes plates",
    "animal": "dog cat horse cow sheep goat bird fish mouse rabbit fox wolf bear lion tiger frog duck goose owl snake",
    "act": "read write run walk cook sing dance swim drive sleep work play listen talk wait help learn teach paint clean",
    "describe": "small large bright dark quiet loud warm cold soft hard quick slow clean dirty heavy light fresh old new "
    "happy sad calm angry brave gentle clever foolish honest proud rough smooth sharp sweet sour tall short thin thick wide",
    "colour": "red blue green yellow orange purple brown black white gray pink silver golden",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "month": "January February March April May June July August September October November December",
}
_PLACES = (
    "in the kitchen|on the table|under the bed|behind the house|near the river|at the station|across the street|in the garden|"
    "by the window|over the bridge|next to the bank|at the end of the road|in front of the school|inside the box"
)
_CHOICES = {kind: words.split() for kind, words in _WORDS.items()} | {"where": _PLACES.split("|")}
_TEMPLATES = """\
{first} {last} lives in {place}.
Did {first} call you on {day}?
The train to {place} leaves at {clock}.
Please buy {thing}, {thing} and {thing}.
I paid ${price} for the {colour} {thing}.
My number is {digits}.
{first} was born on {month} {date}, {year}.
Where is the {colour} {animal}?
How many {thing} do we need?
It is {n} degrees in {place}.
The {describe} {animal} sat {where}.
We can {act} and {act} until {clock}.
Why did {first} {act} so late?
There were {n} {thing} {where}.
Turn left after {n} miles.
Can you {act} with {first} on {day}?
In {year}, {n} people moved to {place}.
Mr. {last} and Mrs. {last} will {act} {where}.
She put the {colour} {thing} {where}.
He said he would {act} tomorrow.
{first}, {first} and {first} went to {place}.
About {n} percent of the {thing} were {describe}.
Do not {act} {where} at night.
Let us {act} before {clock}.
The answer is {n}.
{n} plus {m} is a number.
Would you rather {act} or {act}?
Thank you very much, {first}.
See you on {day}, {last}.
Every {day} we {act}, then we {act}.""".splitlines()


def _from_template(rng: random.Random) -> str:
    def fill(match: re.Match[str]) -> str:
        kind = match[1]
        if kind in _CHOICES:
            return rng.choice(_CHOICES[kind])
        if kind == "clock":
            return f"{rng.randint(1, 12)}:{rng.choice([0, 5, 10, 15, 20, 30, 40, 45, 50]):02d}"
        if kind == "price":
            return f"{rng.randint(1, 90)}.{rng.choice([0, 25, 50, 75, 99]):02d}"
        if kind == "digits":
            return " ".join(str(rng.randint(0, 9)) for _ in range(rng.randint(4, 7)))
        numbers = {"n": (0, 120), "m": (1, 3000), "date": (1, 28), "year": (1700, 2030)}
        return str({name: rng.randint(*ends) for name, ends in numbers.items()}[kind])

    return re.sub(r"\{(\w+)\}", fill, rng.choice(_TEMPLATES))
