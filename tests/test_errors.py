"""The log of unexpected errors: a reference for each, bounded, and never a reason to fail."""

import pickle
import re

import pytest

from explorers.errors import page_error
from pcg import errors
from pcg.errors import InputError, PCGError, counted, unexpected


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr("pcg.errors.LOG", tmp_path / "cache" / "errors.log")
    return errors.LOG


def raised(message="no such luck"):
    try:
        raise OverflowError(message)
    except OverflowError as error:
        return error


def reference_of(error):
    """What the user is told, which holds the reference in the log."""
    return re.fullmatch(r"Unexpected OverflowError; see reference ([0-9a-f]{8}) in cache/errors\.log\.", str(error))[1]


def test_each_error_has_a_reference_and_its_traceback_in_the_log(log):
    first, second = reference_of(unexpected(raised("one"))), reference_of(unexpected(raised("two")))
    assert first != second
    before, after = log.read_text().split(f"{second} ")
    assert before.startswith(f"{first} ")
    assert "OverflowError: one" in before
    assert "OverflowError: two" in after
    assert "raise OverflowError(message)" in before


def test_a_log_that_cannot_be_written_is_replaced_by_the_first_line(log):
    log.parent.write_text("no folder")
    assert str(unexpected(raised("first line\nsecond line"))) == "Unexpected OverflowError: first line."


def test_about_a_megabyte_is_kept_and_the_newest_of_it(log):
    references = [reference_of(unexpected(raised("x" * 400_000))) for _ in range(40)]
    kept = b"".join(file.read_bytes() for file in log.parent.iterdir())
    assert 400_000 < len(kept) <= 1_000_000
    assert references[-1].encode() in kept
    assert references[0].encode() not in kept


def test_an_error_says_the_same_in_another_process():
    error = InputError("theta", object(), "a number from 0 to 1")
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), there.field, str(there)) == (InputError, "theta", str(error))


@pytest.mark.parametrize(("number", "words"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (1024, "1,024 tokens")])
def test_one_thing_has_no_plural(number, words):
    assert counted(number, "token") == words


def test_a_failure_tells_its_reason_as_text():
    assert page_error(PCGError("<b> could not be read.")).message == "&lt;b&gt; could not be read."
