"""espeak-ng's phonemes, which NeuTTS and Piper voices were trained on: needs the optional package `espeakng-loader`."""

import ctypes
import re
import threading
from functools import cache

from pcg.errors import PCGError
from pcg.text.reading import PUNCTUATION, WORD_BREAK


def espeak_phonemes(words: str) -> list[str]:
    """Turn words into espeak-ng's symbols for American English: IPA with stress, ``' '`` between words, punctuation as itself.
    Raises PCGError if `espeakng-loader` is not installed."""
    symbols: list[str] = []
    for clause, mark in re.findall(r"([^,.?!;:]+)([,.?!;:]?)", words):
        for word in _clause_phonemes(clause.strip()).split():
            symbols += [p for p in word.split("_") if p] + [WORD_BREAK]
        if mark in tuple(PUNCTUATION) and symbols:
            symbols[-1] = mark
    return symbols[:-1] if symbols[-1:] == [WORD_BREAK] else symbols


_LOCK = threading.Lock()
"""The library keeps global state in C, so calls are serialised."""


def _clause_phonemes(clause: str) -> str:
    utf8, ipa, separator = 1, 0x02, ord("_") << 8
    pointer, parts = ctypes.c_char_p(clause.encode()), []
    with _LOCK:
        library = _library()
        while pointer.value:
            parts.append((library.espeak_TextToPhonemes(ctypes.byref(pointer), utf8, ipa | separator) or b"").decode())
    return " ".join(parts)


@cache
def _library() -> ctypes.CDLL:
    try:
        import espeakng_loader
    except ModuleNotFoundError as error:
        raise PCGError("This voice reads espeak-ng's phonemes: pip install espeakng-loader brings them.") from error
    library, retrieval = ctypes.CDLL(espeakng_loader.get_library_path()), 1
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    if library.espeak_Initialize(retrieval, 0, espeakng_loader.get_data_path().encode(), 0) < 0:
        raise PCGError("espeak-ng could not start from its bundled data.")
    library.espeak_SetVoiceByName(b"en-us")
    return library
