"""A take without its sound comes back as it was."""

import json

import numpy as np

from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import pack_take, read_take, unpack_take, write_take

TEXT = "hello, is this one? [pause:1] yes! [pause:0.5]"


def test_a_take_comes_back_with_its_pauses(synthesizer: Synthesizer) -> None:
    take = synthesizer.take(TEXT, Settings(seed=3), "two")
    again = unpack_take(pack_take(take), take.audio)
    assert (again.rounds, again.pauses, again.text) == (take.rounds, take.pauses, take.text)
    assert len(take.pauses) == 2
    assert again.summary() == take.summary()


def test_a_take_of_before_there_were_pauses_is_read(synthesizer: Synthesizer) -> None:
    take = synthesizer.take("yes!", Settings(seed=3), "two")
    written = json.loads(json.dumps(write_take(take)))
    del written["pauses"]
    assert read_take(written, np.zeros(0, np.float32)).pauses == ()
