"""espeak-ng's phonemes, which NeuTTS and Piper voices were trained on: needs the optional package `espeakng-loader`."""

import ctypes
import re
import threading
from functools import cache

from pcg.errors import PCGError
from pcg.text.reading import PUNCTUATION, WORD_BREAK


def espeak_phonemes(words: str) -> list[str]:
    """Turn words into espeak-ng's symbols for American English: IPA with stress, ``' '`` between words, punctuation as itself.

    Raises:
        PCGError: if `espeakng-loader` is not installed.
    """
    symbols: list[str] = []
    for clause, mark in re.findall(r"([^,.?!;:]+)([,.?!;:]?)", words):
        for word in _espeak().phonemes(clause.strip()).split():
            symbols += [p for p in word.split("_") if p] + [WORD_BREAK]
        if mark in tuple(PUNCTUATION) and symbols:
            symbols[-1] = mark
    return symbols[:-1] if symbols[-1:] == [WORD_BREAK] else symbols


class _Espeak:
    """The bundled library. It keeps global state in C, so calls are serialised."""

    _UTF8, _IPA, _SEPARATOR, _RETRIEVAL = 1, 0x02, ord("_") << 8, 1

    def __init__(self) -> None:
        try:
            import espeakng_loader
        except ModuleNotFoundError as error:
            raise PCGError("This voice reads espeak-ng's phonemes: pip install espeakng-loader brings them.") from error
        self._lock = threading.Lock()
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        if self._library.espeak_Initialize(self._RETRIEVAL, 0, espeakng_loader.get_data_path().encode(), 0) < 0:
            raise PCGError("espeak-ng could not start from its bundled data.")
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
