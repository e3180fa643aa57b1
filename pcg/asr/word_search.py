"""Transcripts in listed words: a beam search through the CTC head's characters for words of a list, scored by their bigrams."""

import gzip
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from pcg.asr.network import BLANK, CHARACTERS, CLASSES, spell
from pcg.errors import AssetError, first_line
from pcg.files import check_checksums
from pcg.places import ASSETS

FILE = "words.arpa.gz"
UNKNOWN, NO_WORDS = "<unk>", ("<s>", "</s>", "<unk>")
_SPACE = spell(" ")[0]


@dataclass(frozen=True)
class Beam:
    """How wide the search is: texts kept, classes tried at a label, the score behind the best at which a text is dropped; and
    what a bigram's log10 and a word add to a score in nats. Chosen on held-out speech."""

    width: int = 100
    classes: int = 8
    margin: float = 14.0
    bigrams: float = 1.3
    word: float = -2.0


class Lexicon:
    """The words of an ARPA file, and how likely one follows another. Equal files have equal names."""

    def __init__(self, path: Path, beam: Beam | None = None) -> None:
        from flashlight.lib.text.decoder import SmearingMode, Trie
        from flashlight.lib.text.decoder.kenlm import KenLM
        from flashlight.lib.text.dictionary import Dictionary

        self._beam = beam or Beam()
        check_checksums(path)
        try:
            packed = path.read_bytes()
            arpa = gzip.decompress(packed)
            unigrams = re.search(r"\\1-grams:\n(.*)\\2-grams:", arpa.decode("utf-8"), re.DOTALL)[1]
            listed = [line.split("\t")[1] for line in unigrams.splitlines() if line]
            self.words = tuple(word for word in listed if word not in NO_WORDS)
            if not self.words or any(set(word) - set(CHARACTERS.strip()) for word in self.words):
                raise ValueError("its words are not spelled in the recogniser's characters")
            with tempfile.TemporaryDirectory() as folder, _without_standard_error():
                unpacked = Path(folder) / "words.arpa"
                unpacked.write_bytes(arpa)
                self._bigrams = KenLM(str(unpacked), Dictionary([*self.words, UNKNOWN]))
        except Exception as error:
            raise AssetError(f"The word list {path} is missing or damaged ({first_line(error)}).") from error
        digest = hashlib.sha256(packed).hexdigest()[:8]
        self.name = f"CTC and bigrams in {len(self.words):,} listed words ({digest})"
        # Words by their spelling, each with the space that ends it, and how likely a text begins with them.
        self._trie, start = Trie(CLASSES, _SPACE), self._bigrams.start(False)
        for place, word in enumerate(self.words):
            self._trie.insert([*spell(word), _SPACE], place, self._bigrams.score(start, place)[1])
        self._trie.smear(SmearingMode.MAX)

    def search(self, log_probs: Tensor) -> list[str]:
        """Texts of listed words, the likeliest first, for `log_probs [T, C]` of the CTC classes."""
        from flashlight.lib.text.decoder import CriterionType, LexiconDecoder, LexiconDecoderOptions

        beam = self._beam
        options = LexiconDecoderOptions(
            beam_size=beam.width, beam_size_token=beam.classes, beam_threshold=beam.margin, lm_weight=beam.bigrams,
            word_score=beam.word, unk_score=float("-inf"), sil_score=0.0, log_add=True, criterion_type=CriterionType.CTC,
        )  # fmt: skip
        decoder = LexiconDecoder(options, self._trie, self._bigrams, _SPACE, BLANK, len(self.words), [], False)
        # Every word of the tree ends with its space; the last one's was not spoken.
        end = torch.full((1, CLASSES), -30.0).index_fill(1, torch.tensor([_SPACE]), 0.0)
        frames = torch.cat([log_probs.float().cpu(), end]).contiguous()
        results = decoder.decode(frames.data_ptr(), *frames.shape)
        texts = (" ".join(self.words[word] for word in result.words if word >= 0) for result in results)
        return list(dict.fromkeys(texts))


@lru_cache(maxsize=1)
def load_lexicon(path: Path = ASSETS / "recogniser" / FILE) -> Lexicon:
    """Return one for the whole process: it is only read, and its tree takes a hundred megabytes."""
    return Lexicon(path)


@contextmanager
def _without_standard_error() -> Iterator[None]:
    """KenLM draws a progress bar on the process's standard error, past Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
