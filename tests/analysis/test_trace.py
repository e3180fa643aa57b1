"""What is kept of every token of a take."""

from pathlib import Path

import pytest
import torch

from pcg.analysis.whatif import Trace, follow, trace
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.take import Take


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def takes(synthesizer: Synthesizer) -> dict[str, Take]:
    voice = next(iter(synthesizer.voice.references))
    return {m: synthesizer.take("Hello, yes.", Settings(m, theta=0.3, seed=3), voice) for m in ("ar", "sd", "pcg")}


def test_entropy_and_surprisal_are_those_of_the_probabilities_that_the_tokens_were_drawn_from(synthesizer, takes):
    take = takes["pcg"]
    q = torch.from_numpy(follow(synthesizer, take).q[: len(take.tokens)]).double()
    found = trace(synthesizer, take)
    surprisal = -q[torch.arange(len(q)), torch.tensor(take.tokens)].log().numpy()
    assert found.nats("surprisal") == pytest.approx(surprisal.clip(max=15.75), abs=0.126)
    assert found.nats("entropy") == pytest.approx(torch.distributions.Categorical(q).entropy().numpy(), abs=0.101)


def test_kinds_tell_what_the_group_alone_accepted(synthesizer, takes):
    traces = {method: trace(synthesizer, take) for method, take in takes.items()}
    assert set(traces["ar"].kinds) == {"t"}
    assert "g" not in traces["sd"].kinds
    assert "g" in traces["pcg"].kinds
    for method in ("sd", "pcg"):
        take, found = takes[method], traces[method]
        kinds = {"a": "accepted", "g": "accepted", "r": "resampled", "b": "bonus"}
        assert [kinds[kind] for kind in found.kinds] == list(take.kinds)


def test_an_empty_trace_has_no_numbers():
    assert len(Trace("", "", "").nats("entropy")) == 0
