"""The phone in which each speech code occurs most, where a voice lists it. Phones are those of flite; "pau" is silence."""

from collections.abc import Iterable

from torch import Tensor

PHONES = tuple(
    "pau aa ae ah ao aw ax ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw v w y z zh".split()
)
CLASSES = {
    "vowel": "aa ae ah ao aw ax ay eh er ey ih iy ow oy uh uw".split(),
    "approximant": "l r w y".split(),
    "nasal": "m n ng".split(),
    "stop": "b d g k p t".split(),
    "fricative": "ch dh f hh jh s sh th v z zh".split(),
    "pause": ["pau"],
}
NO_PHONE = len(PHONES)
"""Of a code whose phone is not known."""
UNKNOWN = "?"
_LETTERS = "".join(next(name[0] for name, of in CLASSES.items() if phone in of) for phone in PHONES) + UNKNOWN


def class_letters(phones: Tensor | None, codes: Iterable[int]) -> str:
    """The class of each code's phone by its first letter (`CLASSES`), "?" where it is not known."""
    if phones is None:
        return UNKNOWN * len(list(codes))
    return "".join(_LETTERS[int(phones[code])] for code in codes)
