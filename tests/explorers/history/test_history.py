import json
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from explorers.groups.actions import utterances
from explorers.history.actions import bar_value, controls_of, told
from explorers.judging import Verdicts
from explorers.listen.archive import save_history
from explorers.session import REMEMBERED, Session, TakeView
from explorers.settings.actions import read_link
from pcg.errors import InputError, PCGError
from pcg.settings import Settings
from pcg.takes.stored import Origin

ORIGIN = Origin("a-model", "0" * 64)
VOICES = ("rms",)


def reading(seed: int, method: str = "pcg", voice: str = "rms") -> TakeView:
    settings = Settings(method, seed=seed)
    return TakeView(settings, f"Text {seed}.", voice, 1.0, 100.0, 0.3, 0.5, 2.0, False, ("target",), (1,), (7,), ())


def said(*seeds: int) -> Session:
    session = Session()
    for seed in seeds:
        session = session.with_take(reading(seed), False)
    return session


def rows(session: Session, key: str = "pcg") -> tuple[int | None, list[dict]]:
    value = bar_value(session, key, Verdicts(), ORIGIN, VOICES)
    return value["hand"], [json.loads(take) for take in value["takes"]]


def test_the_history_keeps_the_last_takes_and_those_that_are_pinned() -> None:
    session = said(0, 1).with_kept(1, pinned=True)
    for seed in range(2, 2 + REMEMBERED):
        session = session.with_take(reading(seed), False)
    assert [kept.number for kept in session.history] == [1, *range(3, 3 + REMEMBERED)]
    assert [kept.number for kept in session.with_kept(1, pinned=False).history] == list(range(3, 3 + REMEMBERED))


def test_only_so_many_takes_can_be_pinned() -> None:
    session = said(*range(REMEMBERED))
    for number in range(1, REMEMBERED + 1):
        session = session.with_kept(number, pinned=True)
    session = session.with_take(reading(99), False)
    with pytest.raises(PCGError, match="let one go first"):
        session.with_kept(REMEMBERED + 1, pinned=True)


@pytest.mark.parametrize("number", [0, 4, "1", True, None, 1.0])
def test_a_take_that_the_history_does_not_hold_is_refused(number: object) -> None:
    for act in (Session.kept, Session.holding, Session.with_kept):
        with pytest.raises(InputError, match="the number of a take in the history"):
            act(said(1, 2, 3), number)


def test_a_name_is_kept_in_short() -> None:
    session = said(1, 2).with_kept(1, name="  the calm one ")
    assert session.kept(1).title == "the calm one"
    assert session.kept(2).title == "PCG, seed 2"
    with pytest.raises(InputError, match="at most 40 characters"):
        session.with_kept(1, name="x" * 41)


def test_a_take_is_in_hand_again_until_the_next_run() -> None:
    session = said(1, 2)
    assert session.in_hand("pcg").reading.settings.seed == 2
    held = session.holding(1)
    assert held.in_hand("pcg").reading.settings.seed == 1
    assert utterances(held, 64)["pcg"] == utterances(said(1), 64)["pcg"]
    assert told(held.kept(held.held)) == "Take 1 is selected. Its text, voice and settings are restored."
    assert held.with_marks({}).in_hand("pcg").reading.settings.seed == 2


def test_the_bar_says_what_was_cut_and_what_is_compared_with_ar_of_an_earlier_run() -> None:
    session = Session().with_take(reading(1, "ar"), True).with_take(reading(1), True)
    session = session.with_take(replace(reading(1), hit_limit=True), False)
    _, takes = rows(session)
    assert [(take["cut"], take["earlier"], take["ratio"]) for take in takes] == [
        (True, True, 1.0), (False, False, 1.0), (False, False, None),
    ]  # fmt: skip


def test_the_bar_shows_the_newest_take_first_and_which_one_is_in_hand() -> None:
    hand, takes = rows(said(1, 2, 3))
    assert hand == 3
    assert [take["number"] for take in takes] == [3, 2, 1]
    assert rows(said(1, 2, 3).holding(2))[0] == 2
    assert rows(Session()) == (None, [])
    assert rows(said(1).with_take(reading(5, "ar"), False), "ar")[0] == 2


def test_every_take_has_a_link_that_says_it_again_but_one_of_a_recorded_voice() -> None:
    session = said(1).with_take(reading(2, voice="your recording"), False)
    _, (own, known) = rows(session)
    assert (own["link"], own["voice"]) == (None, "your recording")
    stored = read_link("http://127.0.0.1/" + known["link"])
    assert (stored.text, stored.voice, stored.settings) == ("Text 1.", "rms", Settings("pcg", seed=1))
    assert len(known["link"]) <= 370


def test_a_take_with_beams_has_no_link_and_says_what_is_not_restored() -> None:
    beams = replace(reading(3, "ar"), settings=Settings("ar", sampler="eas", hierarchical=True))
    session = said(1).with_take(beams, False)
    _, (searched, plain) = rows(session)
    assert (searched["link"], plain["unlinked"]) == (None, "")
    assert "made with beams" in searched["unlinked"]
    assert "Listen has no beams" in told(session.kept(2))
    assert "settings are restored" in told(session.kept(1))


def test_the_form_gets_what_the_take_was_generated_with() -> None:
    values = controls_of(said(7).kept(1).shown, ORIGIN, VOICES)
    assert (values["text"], values["voice"], values["seed"], values["method"]) == ("Text 7.", "rms", 7, "pcg")


def test_the_zip_holds_every_take_under_its_number_and_name(tmp_path: Path) -> None:
    session = said(1, 2).with_kept(2, name="<b>", pinned=True)
    with pytest.raises(PCGError):
        save_history(tmp_path / "none.zip", session, Verdicts())
    sounds = [tmp_path / f"{n}.wav" for n in (1, 2)]
    for sound in sounds:
        sound.write_bytes(b"RIFF" + sound.name.encode())
    shown = [replace(kept, shown=replace(kept.shown, sound=s)) for kept, s in zip(session.history, sounds, strict=True)]
    with ZipFile(save_history(tmp_path / "all.zip", replace(session, history=tuple(shown)), Verdicts())) as archive:
        assert archive.namelist() == ["001-pcg-seed-1.wav", "002-pcg-seed-2.wav", "figures.json"]
        assert archive.read("002-pcg-seed-2.wav") == b"RIFF2.wav"
        takes = json.loads(archive.read("figures.json"))["takes"]
    assert [(t["number"], t["name"], t["pinned"]) for t in takes] == [(1, None, False), (2, "<b>", True)]
    sounds[0].unlink()
    with pytest.raises(PCGError, match="no longer stored"):
        save_history(tmp_path / "again.zip", replace(session, history=tuple(shown)), Verdicts())
