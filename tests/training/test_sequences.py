"""Training rows have the prompt's shape and learn every speech code."""

import pytest
import torch

from pcg.errors import InputError
from pcg.models.weights import Vocabulary
from pcg.text import llasa
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training.models import Shape, new_target, speech_states
from pcg.training.tokens import IGNORED, TokenBatches, TokenizedUtterance, make_row

READER = PhonemeReader(tuple("abcdef"), (1.0, 2.0, 1.0, 2.0, 1.0, 3.0))
CODES = 16
VOCABULARY = Vocabulary(CODES, READER.first_code, READER.end)


def make_spoken(count: int) -> list[TokenizedUtterance]:
    rng = torch.Generator().manual_seed(0)
    return [
        TokenizedUtterance(("x", "y")[i % 2], "", torch.randint(0, 6, (3 + i % 4,), generator=rng).tolist(),
               torch.randint(0, CODES, (5 + i % 7,), generator=rng))
        for i in range(count)
    ]  # fmt: skip


def test_a_row_learns_each_code_from_the_id_before_it():
    first, second = make_spoken(2)
    row = make_row([first, second], READER, CODES)
    speech = torch.cat([first.codes, second.codes])
    learned = row.labels != IGNORED
    assert row.labels[learned].tolist() == [*speech.tolist(), CODES]
    assert row.ids[-len(speech) :].tolist() == (speech + READER.first_code).tolist()
    assert not learned[: len(row.ids) - len(speech) - 1].any()
    assert row.positions[-len(speech) :].tolist() == list(range(1, len(speech) + 1))


def test_batches_come_back_the_same_and_cover_the_epoch():
    spoken = make_spoken(60)
    a, b = (TokenBatches(spoken, READER, CODES, 200, seed=3) for _ in range(2))
    for index in (0, a.per_epoch + 1):
        assert torch.equal(a.batch(index).ids, b.batch(index).ids)
    seen = sum(int((a.batch(i).labels == CODES).sum()) for i in range(a.per_epoch))
    assert seen >= 60 / 3 - 2
    assert all(a.batch(i).ids.numel() <= 260 for i in range(a.per_epoch))


def test_padding_does_not_change_what_is_learned():
    model = new_target(VOCABULARY, Shape(2, 16, 2, 24), seed=0).eval()
    epochs = TokenBatches(make_spoken(40), READER, CODES, 200, seed=0)
    batch = epochs.batch(0)
    together, head, labels = speech_states(model, batch, VOCABULARY)
    assert (len(together), len(head)) == (len(labels), VOCABULARY.size)
    wider = type(batch)(*(torch.nn.functional.pad(t, (0, 5), value=v) for t, v in
                          ((batch.ids, 0), (batch.positions, 0), (batch.labels, IGNORED))))  # fmt: skip
    torch.testing.assert_close(speech_states(model, wider, VOCABULARY)[0], together, atol=1e-5, rtol=1e-4)


def test_what_was_said_needs_no_guess_of_its_length(llasa_folder):
    """Where a reference is slow, the guess finds no room for what follows; in training, what follows is there."""
    reader = llasa.load_reader(llasa_folder, 65_536)
    slow = TokenizedUtterance("a", "chapter one.", [], torch.arange(700))
    rest = TokenizedUtterance("a", "the wind rose, the windows shook, and all the lamps went out.", [], torch.arange(250))
    with pytest.raises(InputError, match="at most 2048"):
        reader.prompt(rest.text, Reference(slow.text, slow.codes))
    row = make_row([slow, rest], reader, 65_536)
    assert row.ids[-950:].tolist() == (torch.cat([slow.codes, rest.codes]) + reader.first_code).tolist()
    assert row.positions.tolist() == list(range(len(row.ids)))
