"""Which phone a code is heard in."""

import torch

from pcg.groups.phones import CLASSES, NO_PHONE, PHONES, UNKNOWN, class_letters


def test_every_phone_is_of_one_class():
    of_classes = [phone for phones in CLASSES.values() for phone in phones]
    assert sorted(of_classes) == sorted(PHONES)
    assert len({name[0] for name in CLASSES}) == len(CLASSES)


def test_a_code_is_written_as_the_class_of_its_phone():
    phones = torch.tensor([PHONES.index("s"), PHONES.index("iy"), PHONES.index("pau"), NO_PHONE])
    assert class_letters(phones, [0, 1, 2, 3]) == "fvp" + UNKNOWN
    assert class_letters(None, [0, 1]) == UNKNOWN * 2
