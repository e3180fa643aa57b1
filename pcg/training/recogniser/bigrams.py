"""Bigrams of the training text, with every word of the dictionary, as an ARPA file.

Absolute discounting, interpolated with the unigrams (Ney, Essen and Kneser, "On structuring probabilistic dependences in
stochastic language modelling", 1994); pairs that occur once are left to the unigrams.
"""

import gzip
import itertools
from collections import Counter
from collections.abc import Iterable
from math import log10
from pathlib import Path

from pcg.asr.lexicon import UNKNOWN
from pcg.files import replacing
from pcg.metrics.intelligibility import spoken_words

BEGIN, END = "<s>", "</s>"
DISCOUNT = 0.75
FEWEST = 2
# A word that is listed and was never seen counts as this share of one use.
UNSEEN = 0.3
# As log10: what is not in the list is no word, unless the sound leaves no doubt.
OUTSIDE = -18.0


def write_bigrams(path: Path, sentences: Iterable[str], listed: Iterable[str]) -> tuple[int, int]:
    """Write the gzipped ARPA file `path`; return how many words and pairs it holds."""
    rows = [[BEGIN, *spoken_words(sentence).split(), END] for sentence in sentences]
    uses = Counter(word for row in rows for word in row[1:])
    counts = {word: float(n) for word, n in uses.items()} | {word: UNSEEN for word in listed if word not in uses}
    total = sum(counts.values())
    single = {word: n / total for word, n in sorted(counts.items())}
    pairs = Counter(pair for row in rows for pair in itertools.pairwise(row))
    before = Counter(first for row in rows for first in row[:-1])
    kept = {pair: n - DISCOUNT for pair, n in sorted(pairs.items()) if n >= FEWEST}
    taken: Counter[str] = Counter()
    for (first, _), n in kept.items():
        taken[first] += n
    rest = {first: 1 - taken[first] / n for first, n in before.items()}
    lines = ["\\data\\", f"ngram 1={len(single) + 2}", f"ngram 2={len(kept)}", "", "\\1-grams:"]
    lines += [f"{OUTSIDE:.3f}\t{UNKNOWN}", f"-99\t{BEGIN}\t{log10(rest[BEGIN]):.3f}"]
    lines += [f"{log10(p):.3f}\t{word}\t{log10(rest.get(word, 1.0)):.3f}" for word, p in single.items()]
    lines += ["", "\\2-grams:"]
    lines += [
        f"{log10(n / before[first] + rest[first] * single[second]):.3f}\t{first} {second}"
        for (first, second), n in kept.items()
    ]
    text = "\n".join([*lines, "", "\\end\\", ""])
    with replacing(path) as temporary:
        # Without the time of day, equal text makes an equal file.
        temporary.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return len(single) - 1, len(kept)
