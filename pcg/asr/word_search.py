"""Which of several texts was said: what the CTC head, the language model and the bigrams think of each, in one sum.

CTC and a decoder score together what one of them proposed (Hori, Watanabe and Hershey, "Joint CTC/attention decoding for
end-to-end speech recognition", ACL 2017, section 3.3), with the bigrams as a third voice.
"""

import gzip
import hashlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from pcg.asr.network import BLANK, CHARACTERS, CLASSES, spell
from pcg.asr.recogniser import Candidate, Heard, Reading, Recogniser, ScoringRecogniser
from pcg.asr.self_speculative import (
    BATCH_SECONDS,
    Thresholds,
    Times,
    Transcript,
    batches,
    frame_entropies,
    share,
    transcribe,
)
from pcg.errors import AssetError, first_line
from pcg.files import check_checksums
from pcg.places import ASSETS

if TYPE_CHECKING:
    from flashlight.lib.text.decoder import Trie
    from flashlight.lib.text.decoder.kenlm import KenLM


@dataclass(frozen=True)
class CandidateWeights:
    """What each voice counts for, and what a word adds, in nats. Chosen on held-out speech that no bench reads."""

    ctc: float = 0.3
    lm: float = 0.3
    bigrams: float = 0.3
    word: float = -1.0

    def score(self, candidate: Candidate) -> float:
        """ctc log p_ctc(y|x) + lm log p_lm(y|x) + bigrams log p(y) + word |y|."""
        return (
            self.ctc * candidate.ctc + self.lm * candidate.lm + self.bigrams * candidate.bigrams + self.word * candidate.words
        )


def ranked(candidates: Sequence[Candidate], weights: CandidateWeights) -> list[Candidate]:
    """The best first."""
    return sorted(candidates, key=weights.score, reverse=True)


FILE = "words.arpa.gz"
EMBEDDED = ASSETS / "recogniser" / FILE
UNKNOWN, NO_WORDS = "<unk>", ("<s>", "</s>", "<unk>")
_SPACE = spell(" ")[0]
_NATS = log(10.0)


@dataclass(frozen=True)
class Beam:
    """How wide the search is: texts kept, classes tried at a label, the score behind the best at which a text is dropped; and
    what a bigram's log10 and a word add to a score in nats. Chosen on held-out speech that no bench reads."""

    width: int = 100
    classes: int = 8
    margin: float = 14.0
    bigrams: float = 1.3
    word: float = -2.0


class Lexicon:
    """The words of an ARPA file, and how likely one follows another. Equal files, equal `name`."""

    def __init__(self, path: Path, beam: Beam | None = None) -> None:
        self._beam = beam or Beam()
        check_checksums(path)
        try:
            packed = path.read_bytes()
            arpa = gzip.decompress(packed)
            self.words = _unigrams(arpa.decode("utf-8"))
            self._bigrams = _read_bigrams(arpa, self.words)
        except Exception as error:
            raise AssetError(f"The word list {path} is missing or damaged ({first_line(error)}).") from error
        self.name = f"in {len(self.words):,} listed words ({hashlib.sha256(packed).hexdigest()[:8]})"
        self._places = {word: place for place, word in enumerate(self.words)}
        self._trie = _tree(self.words, self._bigrams)

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
        found = decoder.decode(frames.data_ptr(), *frames.shape)
        texts = (" ".join(self.words[word] for word in result.words if word >= 0) for result in found)
        return list(dict.fromkeys(texts))

    def log_probability(self, text: str) -> float:
        """Of the words of `text` and its end under the bigrams, in nats."""
        state, total = self._bigrams.start(False), 0.0
        for word in text.split():
            state, score = self._bigrams.score(state, self._places.get(word, len(self.words)))
            total += score
        return _NATS * (total + self._bigrams.finish(state)[1])


@lru_cache(maxsize=1)
def load_lexicon(path: Path = EMBEDDED) -> Lexicon:
    """One for the whole process: it is only read, and its tree takes a hundred megabytes."""
    return Lexicon(path)


def _unigrams(arpa: str) -> tuple[str, ...]:
    begin, end = arpa.index("\\1-grams:\n"), arpa.index("\\2-grams:")
    words = [line.split("\t")[1] for line in arpa[begin:end].splitlines()[1:] if line]
    listed = tuple(word for word in words if word not in NO_WORDS)
    if not listed or any(set(word) - set(CHARACTERS.strip()) for word in listed):
        raise ValueError("its words are not spelled in the recogniser's characters")
    return listed


def _read_bigrams(arpa: bytes, words: Sequence[str]) -> "KenLM":
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.arpa"
        path.write_bytes(arpa)
        with _hushed():
            return KenLM(str(path), Dictionary([*words, UNKNOWN]))


def _tree(words: Sequence[str], bigrams: "KenLM") -> "Trie":
    """Words by their spelling, each with the space that ends it, and how likely a text begins with them."""
    from flashlight.lib.text.decoder import SmearingMode, Trie

    tree, start = Trie(CLASSES, _SPACE), bigrams.start(False)
    for place, word in enumerate(words):
        tree.insert([*spell(word), _SPACE], place, bigrams.score(start, place)[1])
    tree.smear(SmearingMode.MAX)
    return tree


@contextmanager
def _hushed() -> Iterator[None]:
    """KenLM draws a bar of its progress on the process's standard error, past Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


SEARCHED = 8
Way = Thresholds | Lexicon


def write_down(recogniser: Recogniser, samples: Sequence[Tensor], way: Way) -> list[Transcript]:
    """Self-speculatively by thresholds, or in the words of a lexicon, which only a ScoringRecogniser can."""
    if isinstance(way, Lexicon):
        return transcribe_in_words(recogniser, samples, way)
    return transcribe(recogniser, samples, way)


@torch.inference_mode()
def transcribe_in_words(
    recogniser: ScoringRecogniser,
    samples: Sequence[Tensor],
    lexicon: Lexicon,
    weights: CandidateWeights | None = None,
    batch_seconds: float = BATCH_SECONDS,
) -> list[Transcript]:
    """Transcribe utterances `[N]`, float32 at the recogniser's rate, none of them empty, in the order given."""
    weights = weights or CandidateWeights()
    done: dict[int, Transcript] = {}
    for group in batches(range(len(samples)), lambda i: len(samples[i]), batch_seconds * recogniser.sample_rate):
        found = _transcribe_batch(recogniser, [samples[i] for i in group], lexicon, weights)
        done |= dict(zip(group, found, strict=True))
    return [done[i] for i in range(len(samples))]


def ctc_log_probabilities(log_probs: Tensor, texts: Sequence[str]) -> Tensor:
    """log p(y|x) `[H]` of each text over all its alignments, for `log_probs [T, C]` (arXiv:2603.11243, Eq. 1)."""
    spelled = [torch.tensor(spell(text), dtype=torch.int64) for text in texts]
    lengths = torch.tensor([len(labels) for labels in spelled])
    frames = torch.full((len(texts),), len(log_probs))
    expanded = log_probs.float().cpu()[:, None].expand(-1, len(texts), -1)
    return -F.ctc_loss(expanded, torch.cat(spelled), frames, lengths, BLANK, reduction="none")


def _transcribe_batch(
    recogniser: ScoringRecogniser, samples: Sequence[Tensor], lexicon: Lexicon, weights: CandidateWeights
) -> list[Transcript]:
    clock = [time.perf_counter()]
    heard = recogniser.hear(samples)
    clock.append(time.perf_counter())
    nothing = [()] * len(heard)
    readings = recogniser.read(heard, nothing)
    clock.append(time.perf_counter())
    written = [recogniser.text(tokens) for tokens in recogniser.go_on(heard, readings, nothing)]
    clock.append(time.perf_counter())
    found = [
        ranked(_candidates(recogniser, h, reading, own, lexicon), weights)
        for h, reading, own in zip(heard, readings, written, strict=True)
    ]
    clock.append(time.perf_counter())
    encode, read, go_on, search = (share(begun, ended, len(heard)) for begun, ended in itertools.pairwise(clock))
    times = Times(encode=encode, verify=read, go_on=go_on, search=search)
    return [
        Transcript(best[0].text, "words", h.draft, frame_entropies(h.log_probs).cpu(), candidates=tuple(best), times=times)
        for h, best in zip(heard, found, strict=True)
    ]


def _candidates(
    recogniser: ScoringRecogniser, heard: Heard, reading: Reading, written: str, lexicon: Lexicon
) -> list[Candidate]:
    proposed = [*lexicon.search(heard.log_probs)[:SEARCHED], " ".join(written.split()), heard.draft]
    texts = list(dict.fromkeys(proposed))
    ctc = ctc_log_probabilities(heard.log_probs, texts).tolist()
    # What the language model wrote may have more characters than the sound has frames; the draft never has.
    possible = [(text, sound) for text, sound in zip(texts, ctc, strict=True) if isfinite(sound)]
    lm = recogniser.score(reading, [recogniser.tokens(text) for text, _ in possible]).tolist()
    return [
        Candidate(text, sound, read, lexicon.log_probability(text)) for (text, sound), read in zip(possible, lm, strict=True)
    ]
