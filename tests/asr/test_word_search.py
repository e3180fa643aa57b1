"""Transcripts in listed words: the search finds what brute force finds."""

import gzip
from collections.abc import Callable
from itertools import pairwise, product
from math import log10
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pcg.asr.embedded import Recogniser
from pcg.asr.network import BLANK, CLASSES, spell
from pcg.asr.self_speculative import listen_to_all, transcribe
from pcg.asr.word_search import Beam, Lexicon
from pcg.errors import AssetError

Babble = Callable[[int, int], list[Tensor]]
RATE = 16_000
SINGLE = {"the": 0.18, "a": 0.12, "cat": 0.16, "dog": 0.12, "sat": 0.1, "ran": 0.08, "and": 0.05, "down": 0.03, "ox": 0.01}
PAIRS = {("<s>", "the"): 0.5, ("<s>", "a"): 0.3, ("the", "cat"): 0.6, ("a", "dog"): 0.5, ("cat", "sat"): 0.4, ("and", "a"): 0.5}
BEGIN, END, REST = "<s>", "</s>", 0.4
"""Probabilities of words and pairs of words, and what a word leaves to the unigrams."""


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Lexicon:
    path = tmp_path_factory.mktemp("lexicon") / "words.arpa.gz"
    lines = ["\\data\\", f"ngram 1={len(SINGLE) + 3}", f"ngram 2={len(PAIRS)}", "", "\\1-grams:"]
    lines += ["-18.0\t<unk>", f"-99\t{BEGIN}\t{log10(REST)}", f"{log10(0.15)}\t{END}"]
    lines += [f"{log10(p)}\t{word}\t{log10(REST)}" for word, p in SINGLE.items()]
    lines += ["", "\\2-grams:", *(f"{log10(p)}\t{' '.join(pair)}" for pair, p in PAIRS.items()), "", "\\end\\", ""]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return Lexicon(path, Beam(width=2000, classes=CLASSES, margin=1e9))


def spelled(text: str, likely: float) -> Tensor:
    """Log-probabilities of a head that says `text`, a blank between any two labels, with probability `likely` at each."""
    labels = [label for character in spell(text) for label in (character, BLANK)]
    laws = torch.full((len(labels), CLASSES), (1 - likely) / (CLASSES - 1))
    laws[torch.arange(len(labels)), torch.tensor(labels)] = likely
    return laws.log()


def log10_of_bigrams(text: str) -> float:
    """The probability of the words of `text` and its end."""
    chain = pairwise([BEGIN, *text.split(), END])
    return sum(log10(PAIRS.get(pair, REST * SINGLE.get(pair[1], 0.15))) for pair in chain)


def log_of_ctc(log_probs: Tensor, texts: list[str]) -> Tensor:
    """The probability of each text over all its alignments, `[H]` (arXiv 2603.11243, Eq. 1)."""
    labels = [torch.tensor(spell(text)) for text in texts]
    lengths, frames = torch.tensor([len(each) for each in labels]), torch.full((len(texts),), len(log_probs))
    expanded = log_probs[:, None].expand(-1, len(texts), -1)
    return -torch.nn.functional.ctc_loss(expanded, torch.cat(labels), frames, lengths, BLANK, reduction="none")


def test_what_is_no_word_is_heard_as_the_nearest(lexicon: Lexicon) -> None:
    assert lexicon.search(spelled("the kat sat", 0.8))[0] == "the cat sat"
    assert lexicon.search(spelled("the ox ran", 0.8))[0] == "the ox ran"
    assert "anda" not in " ".join(lexicon.search(spelled("anda", 0.999))), "two words have a space between them"


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_what_brute_force_finds(lexicon: Lexicon, seed: int) -> None:
    """All alignments of all texts of up to two words in seven frames, by definition."""
    rng = torch.Generator().manual_seed(seed)
    log_probs = (2.5 * torch.randn(7, CLASSES, generator=rng)).log_softmax(-1)
    # The search hears each text with the space that ends its last word, in a frame of its own; more spaces read the same.
    end = torch.full((1, CLASSES), -30.0).index_fill(1, torch.tensor([spell(" ")[0]]), 0.0)
    beam, frames, score = Beam(), torch.cat([log_probs, end]), {}
    for words in (words for n in (1, 2) for words in product(lexicon.words, repeat=n)):
        spaced = [
            " " * before + (" " * between).join(words) + " " * after
            for before, after, between in product(range(4), range(1, 5), range(1, 4) if len(words) > 1 else [1])
        ]
        heard, text = float(log_of_ctc(frames, spaced).logsumexp(0)), " ".join(words)
        score[text] = heard + beam.bigrams * log10_of_bigrams(text) + beam.word * len(words)
    found = [text for text in lexicon.search(log_probs) if text in score]
    assert found[0] == max(score, key=score.__getitem__)
    assert all(score[one] >= score[next_one] - 1e-3 for one, next_one in pairwise(found[:6]))


def test_transcripts_come_in_order(recogniser: Recogniser, lexicon: Lexicon, babble: Babble) -> None:
    utterances = babble(5, 1)
    for utterance, transcript in zip(utterances, transcribe(recogniser, utterances, lexicon), strict=True):
        (alone,) = transcribe(recogniser, [utterance], lexicon)
        assert transcript.text == alone.text
        assert set(transcript.text.split()) <= set(lexicon.words)
        assert transcript.stage == "words"
        assert transcript.milliseconds["search"] > 0
    (silence,) = listen_to_all(recogniser, [np.zeros(RATE, np.float32)], RATE, lexicon)
    assert (silence.text, silence.parts) == ("", ())


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        gzip.compress(b"no model", mtime=0),
        gzip.compress("\\1-grams:\n-1\tcafé\t0\n\\2-grams:\n".encode(), mtime=0),
    ],
)
def test_a_damaged_list_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.gz").write_bytes(content)
    with pytest.raises(AssetError, match="missing or damaged") as caught:
        Lexicon(tmp_path / "w.gz")
    assert "\n" not in str(caught.value)
