"""Transcripts in listed words: the bigrams are laws, the search finds what brute force finds, and the best sum wins."""

import gzip
from collections.abc import Callable
from itertools import pairwise, product
from math import exp, isfinite, log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pcg.asr.embedded import EmbeddedRecogniser
from pcg.asr.listening import listen, listen_to_all
from pcg.asr.network import BLANK, CLASSES, spell
from pcg.asr.word_search import (
    Beam,
    Candidate,
    CandidateWeights,
    Lexicon,
    ctc_log_probabilities,
    ranked,
    transcribe_in_words,
    write_down,
)
from pcg.errors import AssetError, InputError
from pcg.training.recogniser import BEGIN, write_bigrams

Babble = Callable[[int, int], list[Tensor]]
SENTENCES = ["The cat sat.", "the cat ran", "a dog sat", "A dog and a cat", "the dog ran", "the cat sat down"]
LISTED = ["zebra", "cat", "ox"]
RATE = 16_000


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Lexicon:
    path = tmp_path_factory.mktemp("lexicon") / "words.arpa.gz"
    write_bigrams(path, SENTENCES, LISTED)
    return Lexicon(path, Beam(width=2000, classes=CLASSES, margin=1e9))


def spelled(text: str, likely: float) -> Tensor:
    """Log-probabilities of a head that says `text`, a blank between any two labels, with probability `likely` at each."""
    labels = [label for character in spell(text) for label in (character, BLANK)]
    laws = torch.full((len(labels), CLASSES), (1 - likely) / (CLASSES - 1))
    laws[torch.arange(len(labels)), torch.tensor(labels)] = likely
    return laws.log()


def arpa_of(path: Path) -> tuple[dict[str, float], dict[str, float], dict[tuple[str, str], float]]:
    """Probabilities of words, what a word leaves to the unigrams, and probabilities of pairs."""
    single, rest, pairs = {}, {}, {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        fields = line.split("\t")
        if len(fields) == 3 or (len(fields) == 2 and " " not in fields[1]):
            single[fields[1]] = 10 ** float(fields[0])
            rest[fields[1]] = 10 ** float(fields[2]) if len(fields) == 3 else 1.0
        elif len(fields) == 2:
            first, second = fields[1].split(" ")
            pairs[first, second] = 10 ** float(fields[0])
    return single, rest, pairs


def test_after_every_word_the_probabilities_add_up_to_one(tmp_path: Path) -> None:
    write_bigrams(tmp_path / "w.gz", SENTENCES, LISTED)
    single, rest, pairs = arpa_of(tmp_path / "w.gz")
    words = [word for word in single if word not in (BEGIN, "<unk>")]
    assert set(words) == {"the", "cat", "sat", "ran", "a", "dog", "and", "down", "zebra", "ox", "</s>"}
    assert ("the", "cat") in pairs
    for first in (BEGIN, *words):
        after = [pairs.get((first, second), rest[first] * single[second]) for second in words]
        assert sum(after) == pytest.approx(1, abs=0.01)


def test_equal_text_makes_an_equal_file(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write_bigrams(tmp_path / name, SENTENCES, LISTED)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert Lexicon(tmp_path / "a.gz").name == Lexicon(tmp_path / "b.gz").name


def test_a_text_is_as_likely_as_its_pairs(lexicon: Lexicon, tmp_path: Path) -> None:
    write_bigrams(tmp_path / "w.gz", SENTENCES, LISTED)
    single, rest, pairs = arpa_of(tmp_path / "w.gz")
    chain = [(BEGIN, "the"), ("the", "zebra"), ("zebra", "</s>")]
    wanted = sum(log(pairs.get(pair, rest[pair[0]] * single[pair[1]])) for pair in chain)
    assert lexicon.log_probability("the zebra") == pytest.approx(wanted, abs=1e-3)
    assert lexicon.log_probability("the cat") > lexicon.log_probability("the zebra") > lexicon.log_probability("the zzqk")


def test_what_is_no_word_is_heard_as_the_nearest(lexicon: Lexicon) -> None:
    assert lexicon.search(spelled("the kat sat", 0.8))[0] == "the cat sat"
    assert lexicon.search(spelled("the ox ran", 0.8))[0] == "the ox ran"


def test_words_have_a_space_between_them(lexicon: Lexicon) -> None:
    """ "anda" is two listed words without one."""
    certain = lexicon.search(spelled("and a", 0.95))[0]
    assert certain == "and a"
    joined = ctc_log_probabilities(spelled("anda", 0.999), ["and a", "and"])
    assert joined[0] < -5
    assert "anda" not in " ".join(lexicon.search(spelled("anda", 0.999)))


@pytest.mark.parametrize("seed", range(6))
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
        heard, text = float(ctc_log_probabilities(frames, spaced).logsumexp(0)), " ".join(words)
        score[text] = heard + beam.bigrams * lexicon.log_probability(text) / log(10) + beam.word * len(words)
    found = [text for text in lexicon.search(log_probs) if text in score]
    assert found[0] == max(score, key=score.__getitem__)
    assert all(score[one] >= score[next_one] - 1e-3 for one, next_one in pairwise(found[:6]))


def test_ctc_sums_over_all_alignments() -> None:
    laws = torch.randn(3, CLASSES, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    a = spell("a")[0]
    paths = [
        path
        for path in product((BLANK, a), repeat=3)
        if "".join("a" for i in range(3) if path[i] == a and (i == 0 or path[i - 1] != a)) == "a"
    ]
    wanted = sum(exp(sum(float(laws[t, label]) for t, label in enumerate(path))) for path in paths)
    assert ctc_log_probabilities(laws, ["a"])[0] == pytest.approx(log(wanted), abs=1e-5)
    assert ctc_log_probabilities(laws, [""])[0] == pytest.approx(float(laws[:, BLANK].sum()), abs=1e-5)


def test_the_best_sum_wins() -> None:
    heard, fluent, both = Candidate("a", -1, -9, -5), Candidate("b", -9, -1, -5), Candidate("c d", -3, -3, -4)
    assert ranked([heard, fluent, both], CandidateWeights())[0] == both
    assert ranked([fluent, both, heard], CandidateWeights(1, 0, 0, 0))[0] == heard
    assert ranked([heard, both, fluent], CandidateWeights(0, 1, 0, 0))[0] == fluent
    assert CandidateWeights(0, 0, 0, -1).score(both) == -2


def test_a_whole_text_is_scored_with_its_end(recogniser: EmbeddedRecogniser, babble: Babble) -> None:
    heard = recogniser.hear(babble(1, 3))
    (prompt,) = recogniser.read(heard, [()])
    texts = [recogniser.tokens(text) for text in ("the lazy dog", "", "a fox", "the quick brown fox jumps over it all")]
    found = recogniser.score(prompt, texts)
    for tokens, score in zip(texts, found.tolist(), strict=True):
        (alone,) = recogniser.read(heard, [[*tokens, recogniser.end]])
        assert score == pytest.approx(float(alone.log_likelihoods.sum()), abs=2e-3)


def test_transcripts_come_in_order_with_their_candidates(
    recogniser: EmbeddedRecogniser, lexicon: Lexicon, babble: Babble
) -> None:
    utterances = babble(5, 1)
    found = write_down(recogniser, utterances, lexicon)
    for utterance, transcript in zip(utterances, found, strict=True):
        (alone,) = transcribe_in_words(recogniser, [utterance], lexicon)
        assert transcript.text == alone.text == transcript.candidates[0].text
        assert transcript.stage == "words"
        assert all(isfinite(score) for c in transcript.candidates for score in (c.ctc, c.lm, c.bigrams))
        assert transcript.draft in {candidate.text for candidate in transcript.candidates}
        scores = [CandidateWeights().score(candidate) for candidate in transcript.candidates]
        assert scores == sorted(scores, reverse=True)
        assert transcript.times.search > 0


def test_the_weights_decide(recogniser: EmbeddedRecogniser, lexicon: Lexicon, babble: Babble) -> None:
    """By CTC alone nothing is better than the texts that CTC proposed; by bigrams alone the likeliest words win."""
    utterances = babble(4, 2)
    by_sound = transcribe_in_words(recogniser, utterances, lexicon, CandidateWeights(1, 0, 0, 0))
    by_words = transcribe_in_words(recogniser, utterances, lexicon, CandidateWeights(0, 0, 1, 0))
    for sound, words in zip(by_sound, by_words, strict=True):
        assert sound.candidates[0].ctc == max(c.ctc for c in sound.candidates)
        assert words.candidates[0].bigrams == max(c.bigrams for c in words.candidates)
    assert [t.text for t in by_sound] != [t.text for t in by_words]


def test_silence_says_nothing(recogniser: EmbeddedRecogniser, lexicon: Lexicon, babble: Babble) -> None:
    (sound,) = babble(1, 4)
    silent, spoken = listen_to_all(recogniser, [np.zeros(RATE, np.float32), sound.numpy()], RATE, lexicon)
    assert (silent.text, silent.parts) == ("", ())
    assert spoken.text == listen(recogniser, sound.numpy(), RATE, lexicon).text
    with pytest.raises(InputError, match="finite"):
        listen(recogniser, np.full(RATE, np.nan, np.float32), RATE, lexicon)


@pytest.mark.parametrize(
    "content", [b"", b"no archive", gzip.compress(b"no model", mtime=0), gzip.compress(b"\\1-grams:\n\\2-grams:\n", mtime=0)]
)
def test_a_damaged_list_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.gz").write_bytes(content)
    with pytest.raises(AssetError, match="missing or damaged") as caught:
        Lexicon(tmp_path / "w.gz")
    assert "\n" not in str(caught.value)
    with pytest.raises(AssetError, match="missing or damaged"):
        Lexicon(tmp_path / "nothing.gz")


def test_words_in_other_characters_are_refused(tmp_path: Path) -> None:
    text = "\\1-grams:\n-1\tcafé\t0\n-1\tcat\t0\n\\2-grams:\n"
    (tmp_path / "w.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(AssetError, match="not spelled"):
        Lexicon(tmp_path / "w.gz")


def test_loading_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_bigrams(tmp_path / "w.gz", SENTENCES, LISTED)
    Lexicon(tmp_path / "w.gz").log_probability("the cat")
    assert capfd.readouterr() == ("", "")
