from dataclasses import replace
from pathlib import Path

import pytest
import torch

from explorers.judging import Verdicts
from explorers.listen.take_figures import judged_html
from explorers.session import GONE, PRESET, Card, Session, ShownTake, TakeView, task_of
from explorers.shared.readout import card_html, groups_html, preset_title_html
from pcg.audio import write_wav
from pcg.errors import PCGError
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.written import pack_take
from pcg.text.prompt import Reference

ACCEPTED = ("acceptance_rate", "acceptance_of_tested", "acceptance_by_position")
TASK = task_of("Hello.", "one", None, Settings())


def card(own: TakeView, speed_up: float | None = None, baseline: str = "none", outdated: bool = False) -> Card:
    return Card((ShownTake(own, speed_up=speed_up, baseline=baseline),), outdated=outdated)


def compared(session: Session, key: str) -> tuple[float | None, str]:
    return session.cards[key].first.speed_up, session.cards[key].first.baseline


def reading(method: str, speed: float, text: str = "Hello.") -> TakeView:
    tests, positions = ((5, True), (6, True), (7, True), (8, False)), (0.72, 0.54)
    shape = ("accepted",), (3,), (5,), tests, (), (), positions
    return TakeView(Settings(method), text, "one", 1.5, speed, 0.3, 0.5, 2.0, False, *shape)


def test_a_take_on_the_page_is_kept_with_all_its_rounds_and_its_sound(synthesizer: Synthesizer, tmp_path: Path) -> None:
    take = synthesizer.take("The dog.", Settings("pcg", theta=0.3), "one")
    write_wav(tmp_path / "dog.wav", take.audio, take.sample_rate)
    session = Session().with_take(TakeView.of(take), True, sound=tmp_path / "dog.wav", packed=pack_take(take))
    kept = session.cards["pcg"].first.take()
    assert kept.rounds == take.rounds
    assert kept.summary() == take.summary()
    assert kept.audio == pytest.approx(take.audio, abs=1e-4)
    figures = TakeView.of(take).as_dict()
    assert {name: figures[name] for name in ACCEPTED} == {name: take.summary()[name] for name in ACCEPTED}
    assert TakeView.of(take).steps == tuple((len(r.tokens), r.draft_ms + r.verify_ms + r.rule_ms) for r in take.rounds)
    (tmp_path / "dog.wav").unlink()
    with pytest.raises(PCGError, match=GONE):
        session.cards["pcg"].first.take()
    with pytest.raises(PCGError, match=GONE):
        ShownTake(TakeView.of(take)).take()


def test_speed_is_compared_with_ar_of_the_same_run_or_of_an_earlier_one_that_nothing_outdated() -> None:
    session = Session().with_take(reading("ar", 100), True).with_take(reading("pcg", 150), True)
    assert compared(session, "pcg") == (1.5, "same run")
    again = session.with_take(reading("pcg", 120), False)
    assert compared(again, "pcg") == (1.2, "last run")
    assert "<small>AR, measured in an earlier run</small>" in card_html(again.cards["pcg"])
    twice = again.with_take(seeded("pcg", 120, 1), False, joins=True)
    assert "1.20× AR of an earlier run" in judged_html(twice.cards["pcg"], 1, Verdicts())
    both = session.with_take(seeded("pcg", 120, 1), True, joins=True)
    assert "1.50× AR," in judged_html(both.cards["pcg"], 1, Verdicts())
    outdated = session.with_marks({"ar": ("Bye.", *TASK[1:])}).with_take(reading("pcg", 120), False)
    assert compared(outdated, "pcg") == (None, "none")
    renewed = session.with_marks({"ar": TASK}, {"ar", "pcg"}).with_take(reading("pcg", 120), True)  # AR's is still to come
    assert compared(renewed, "pcg") == (None, "none")


@pytest.mark.parametrize(
    "other",
    [
        {"text": "Bye."},
        {"voice": "two"},
        {"settings": Settings("pcg", temperature=0.9)},
        {"settings": Settings("pcg", seed=7)},
    ],
)
def test_speed_is_compared_with_no_ar_take_of_another_task(other: dict[str, object]) -> None:
    session = Session().with_take(reading("ar", 100), True)
    assert compared(session.with_take(replace(reading("pcg", 150), **other), False), "pcg") == (None, "none")


def test_in_hand_is_pcgs_take_or_else_the_newest() -> None:
    session = Session().with_take(reading("ar", 1), True).with_take(reading("sd", 2), True).with_take(reading("ar", 3), True)
    assert Session().in_hand("pcg") is None
    assert session.in_hand("pcg").reading == reading("ar", 3)
    session = session.with_take(reading("pcg", 4), True).with_take(reading("sd", 5), False)
    assert session.in_hand("pcg").reading == reading("pcg", 4)
    assert session.in_hand("sd").reading == reading("sd", 5)


def test_a_recorded_ar_take_is_no_baseline_for_a_live_one() -> None:
    shown = {m: ShownTake(reading(m, 100), None, None, 1.0, "recorded") for m in METHODS}
    session = Session({method: Card((take,)) for method, take in shown.items()})
    assert compared(session, "sd") == (1.0, "recorded")
    assert "the AR baseline" in card_html(session.cards["ar"])
    live = session.with_take(reading("pcg", 120), False)
    assert compared(live, "pcg") == (None, "none")
    assert "AR is not measured with this text, voice, sampling and seed" in card_html(live.cards["pcg"])


def test_a_silent_ar_take_leaves_the_speed_up_open() -> None:
    session = Session().with_take(reading("ar", 0), True).with_take(reading("pcg", 150), True)
    assert compared(session, "pcg") == (None, "same run")


def seeded(method: str, speed: float, seed: int) -> TakeView:
    return replace(reading(method, speed), settings=Settings(method, seed=seed))


def test_takes_of_one_request_stand_on_one_card_and_are_compared_at_their_own_seeds() -> None:
    session = Session()
    for seed, (ar, pcg) in enumerate([(100, 150), (200, 100)]):
        session = session.with_take(seeded("ar", ar, seed), True, joins=seed > 0)
        session = session.with_take(seeded("pcg", pcg, seed), True, joins=seed > 0)
    pair = session.cards["pcg"]
    assert [said.speed_up for said in pair.takes] == [1.5, 0.5]
    assert (pair.mean("tokens_per_second"), pair.mean("speed_up"), pair.mean("acceptance_rate")) == (125, 1.0, 0.5)
    assert [pair.take(number).reading.settings.seed for number in (0, 1, 2, 9)] == [0, 0, 1, 1]
    assert pair.reading.settings.seed == 0
    alone = session.with_take(seeded("pcg", 50, 1), False).cards["pcg"]
    assert [said.speed_up for said in alone.takes] == [0.25]


@pytest.mark.parametrize(
    "other", [{"temperature": 0.7}, {"sampler": "ras"}, {"top_k": 9}, {"top_p": 0.9}, {"repetition_penalty": 1.1}, {"seed": 1}]
)
def test_speed_is_compared_with_no_ar_of_another_sampling(other: dict[str, object]) -> None:
    sampled = reading("pcg", 150)
    session = Session().with_take(reading("ar", 100), True)
    session = session.with_take(replace(sampled, settings=sampled.settings.with_(**other)), True)
    assert compared(session, "pcg") == (None, "none")


def test_speed_is_compared_with_no_ar_of_another_recording() -> None:
    mine, yours = (Reference("Yes.", torch.tensor([1, 2, last])) for last in (3, 4))
    session = Session().with_take(reading("ar", 100), True, reference=mine)
    assert compared(session.with_take(reading("pcg", 150), True, reference=mine), "pcg") == (1.5, "same run")
    assert compared(session.with_take(reading("pcg", 150), True, reference=yours), "pcg") == (None, "none")


def test_a_preset_has_a_card_of_its_own_name() -> None:
    session = Session().with_take(reading("ar", 100), True).with_take(reading("pcg", 50), True, key=PRESET, name="mine")
    assert set(session.cards) == {"ar", PRESET}
    assert compared(session, PRESET) == (0.5, "same run")
    assert session.without_other_preset("mine").cards == session.cards
    assert set(session.without_other_preset("yours").cards) == set(session.without_other_preset(None).cards) == {"ar"}
    title = preset_title_html("<i>${mine}", Settings("ssd", beta=0.4))
    assert "&lt;i&gt;" in title
    assert "by SSD" in title


def test_cards_of_another_text_are_marked() -> None:
    session = Session().with_take(reading("ar", 100), True)
    assert not session.with_marks({"ar": TASK}).cards["ar"].outdated
    assert session.with_marks({"pcg": TASK}).cards["ar"].outdated
    outdated = session.with_marks({"ar": ("Bye.", *TASK[1:])}).cards["ar"]
    assert outdated.outdated
    assert "from an earlier request" in card_html(outdated)


def test_the_card_shows_the_figures_and_the_settings() -> None:
    html = card_html(card(reading("pcg", 123.4), 1.234, "same run"))
    for shown in (
        "<b>123</b>",
        "1.23×",
        "measured in this same run",
        "50%",
        "75%",
        "accepted by position 72%, 54%",
        "2.00",
        "0.30",
        "1.5 s",
        f"theta {Settings().theta:g}",
        "seed 0",
    ):
        assert shown in html
    assert "beta" not in html
    assert "cut at the length limit" in card_html(card(replace(reading("sd", 1), hit_limit=True)))


def test_a_card_of_several_takes_shows_their_mean_large_and_one_of_them_small() -> None:
    takes = [ShownTake(reading("pcg", speed), speed_up=ratio, baseline="same run") for speed, ratio in ((150, 1.5), (50, 0.5))]
    html = card_html(Card(tuple(takes)), 2)
    assert "<b>100</b> tokens/s" in html
    assert "<b>1.00×</b> <small>AR, measured in this same run; mean of 2 takes</small>" in html
    assert "this take: 50 tokens/s, 0.50× · theta" in html
    assert "mean of" not in card_html(Card(tuple(takes[:1])))
    ar = [ShownTake(reading("ar", speed), speed_up=1.0, baseline="self") for speed in (100, 50)]
    assert "the AR baseline; mean of 2 takes" in card_html(Card(tuple(ar)))
    assert "×" not in card_html(Card(tuple(ar)))


def test_what_is_unknown_is_a_dash() -> None:
    silent = replace(reading("ar", 0), rtf=None, acceptance_rate=None, drafts=(), acceptance_by_position=())
    assert card_html(card(silent)).count("<dd>–</dd>") == 3
    assert "by position" not in card_html(card(silent))
    assert card_html(None).count("–") == 6


@pytest.mark.parametrize("method", METHODS)
def test_no_card_ever_holds_what_a_user_typed(method: str) -> None:
    hostile = "<script>${alert(1)}</script>"
    html = card_html(card(replace(reading(method, 10), text=hostile, voice=hostile), 1.0, "same run", outdated=True))
    assert "script" not in html
    assert "$" not in html


def test_theta_is_told_in_numbers(synthesizer: Synthesizer) -> None:
    figures = synthesizer.statistics(0.3)
    html = groups_html(0.3, figures)
    assert f"<b>{figures.groups}</b> groups" in html
    assert f"<b>{figures.mean_size:.1f}</b> tokens" in html
