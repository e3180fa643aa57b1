"""Which phone a code is heard in."""

import pytest
import torch

from pcg.groups.phones import CLASSES, NO_PHONE, PHONES, UNKNOWN, class_letters, phones_of_codes


def test_every_phone_is_of_one_class():
    of_classes = [phone for phones in CLASSES.values() for phone in phones]
    assert sorted(of_classes) == sorted(PHONES)
    assert len({name[0] for name in CLASSES}) == len(CLASSES)


def test_a_code_is_called_by_the_phone_that_it_occurs_in_most():
    s, iy, pau = (PHONES.index(phone) for phone in ("s", "iy", "pau"))
    timed = [
        (torch.tensor([0, 0, 1, 2]), torch.tensor([s, s, iy, pau])),
        (torch.tensor([0, 1, 1]), torch.tensor([iy, iy, s])),
    ]
    phones, right, alike = phones_of_codes(timed, 5)
    assert phones.tolist() == [s, iy, pau, NO_PHONE, NO_PHONE]
    assert right == pytest.approx(5 / 7)
    assert alike == pytest.approx(5 / 7)
    assert phones_of_codes([(torch.tensor([0, 0, 0]), torch.tensor([s, s, PHONES.index("z")]))], 1)[1:] == (
        pytest.approx(2 / 3),
        1.0,
    )
    assert class_letters(phones, [0, 1, 2, 4]) == "fvp" + UNKNOWN


def test_without_timed_speech_nothing_is_known():
    phones, *_ = phones_of_codes([], 3)
    assert phones.tolist() == [NO_PHONE] * 3
    assert class_letters(None, [0, 1]) == UNKNOWN * 2
