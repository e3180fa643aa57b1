"""Which phone each speech code is heard in: a map from codes to phones, counted over speech whose phones are timed.

A code is a few hundredths of a second of sound, so one phone has several codes, and one code may occur in several phones: it is
called by the one that it occurs in most. Phones are those of flite; "pau" is silence.
"""

from collections.abc import Iterable

import torch
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
"""Of a code that the timed speech does not have."""
UNKNOWN = "?"
_LETTERS = "".join(next(name[0] for name, of in CLASSES.items() if phone in of) for phone in PHONES) + UNKNOWN


def phones_of_codes(timed: Iterable[tuple[Tensor, Tensor]], codebook_size: int) -> tuple[Tensor, float, float]:
    """The number of the phone of each code, `[codebook_size]` uint8; the share of `timed` in which that is the phone, and the
    share in which it is of the phone's class.

    timed: codes `[T]` and the numbers of the phones that they are spoken in `[T]`, utterance by utterance.
    """
    counts = torch.zeros(codebook_size, len(PHONES), dtype=torch.int64)
    for codes, phones in timed:
        counts.index_put_((codes.long(), phones.long()), torch.ones(len(codes), dtype=torch.int64), accumulate=True)
    most, phone = counts.max(1)
    classes = torch.tensor([_LETTERS.index(letter) for letter in _LETTERS[:NO_PHONE]])
    alike = (counts * (classes[None] == classes[phone][:, None])).sum()
    phone[most == 0] = NO_PHONE
    total = counts.sum().clamp(min=1)
    return phone.to(torch.uint8), float(most.sum() / total), float(alike / total)


def class_letters(phones: Tensor | None, codes: Iterable[int]) -> str:
    """The class of each code's phone by its first letter (`CLASSES`), "?" where it is not known."""
    if phones is None:
        return UNKNOWN * len(list(codes))
    return "".join(_LETTERS[int(phones[code])] for code in codes)
