"""Why drafting is of no use, by what drafts: one sentence each, and none where there is nothing to say."""

from dataclasses import replace

import pytest

from explorers.tune.measured import Bench, Measured, why_idle
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

WORDS = "Hello, yes."


def measured(synthesizer: Synthesizer) -> Measured:
    return Measured.of(synthesizer.take(WORDS, Settings("sd", temperature=1.0, seed=5), "one"), synthesizer.voice.draft_kind)


@pytest.fixture(scope="module")
def lookup(tiny_voice_folder, tmp_path_factory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder), draft="lookup"), tmp_path_factory.mktemp("cache"))


def test_a_take_knows_what_drafted_and_lookup_has_no_bound(lookup: Synthesizer) -> None:
    take = measured(lookup)
    assert take.draft == "lookup"
    assert not take.is_steady
    assert Bench().spoken(take, None).bound is None


@pytest.mark.parametrize(
    ("draft", "method", "share", "words"),
    [
        ("trained", "ar", 0, "AR drafts nothing"),
        ("none", "ar", 0, "No draft is loaded"),
        ("lookup", "pcg", 0, "found nothing to copy"),
        ("lookup", "pcg", 0.2, "found something to copy in 20% of the rounds"),
        ("lookup", "pcg", 1, None),
        ("layers:0,2", "pcg", 1, "The draft is untrained: 30.0% of its tokens passed"),
        ("trained", "pcg", 1, None),
    ],
)
def test_the_reason_is_told(lookup: Synthesizer, draft: str, method: str, share: float, words: str | None) -> None:
    take = measured(lookup)
    rate = None if not share else 0.3
    reading = replace(take.reading, settings=Settings(method), acceptance_rate=rate, group_sizes=(1, 4))
    rounds = tuple(replace(take.rounds[0], drafted=3 if i < 10 * share else 0) for i in range(10))
    told = why_idle(replace(take, reading=reading, rounds=rounds, draft=draft), None)
    assert told is None if words is None else words in told


def test_at_beta_one_even_an_untrained_draft_passes(lookup: Synthesizer) -> None:
    take = measured(lookup)
    reading = replace(take.reading, settings=Settings("ssd", beta=1), acceptance_rate=1.0)
    assert "every drafted token passes" in why_idle(replace(take, reading=reading, draft="layers:0,2"), None)
