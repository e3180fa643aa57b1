"""Recorded tests, and rules judged on them again without a model."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pcg.errors import AssetError, InputError
from pcg.experiments.traces import SCHEMA, SENTENCES, TRACES, Recorder, Traces, write_traces
from pcg.experiments.unit import Condition, Unit, Utterance
from pcg.files import write_checksums
from pcg.metrics.intelligibility import read_sentences
from pcg.rules import coarse, exact, membership, tolerant
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

SAID = [Utterance(text, "two") for text in ("hello, yes!", "is this one?")]
SD, PCG = Condition("SD", Settings("sd")), Condition("PCG", Settings("pcg", theta=0.3))
TOP = Condition("top", Settings("sd"), rule="membership:3")
UNITS = [Unit(said, condition, 0) for said in SAID for condition in (SD, PCG, TOP, Condition("AR", Settings("ar")))]


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def folder(synthesizer: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    tests = write_traces(folder, synthesizer, UNITS)
    accepted = pq.read_table(folder / TRACES)["accepted"]
    assert tests == len(accepted) - accepted.null_count
    return folder


def test_every_test_is_there_as_the_take_has_it(folder: Path, synthesizer: Synthesizer) -> None:
    rounds = list(Traces.read(folder).rounds("PCG"))
    unit = Unit(SAID[0], PCG, 0)
    take = synthesizer.take(unit.utterance.text, unit.settings, "two")
    for rows, round_ in zip(rounds, take.rounds, strict=False):
        for row, test in zip(rows, round_.tests, strict=False):
            assert (row["token"], row["group"], row["accepted"]) == (test.token, test.group, test.accepted)
            assert row["coin"] == test.coin
            assert (row["p"], row["mass_q"]) == pytest.approx((test.p, test.mass_q))
    assert Traces.read(folder).methods == ["SD", "PCG", "top"]
    sentences = pq.read_table(folder / SENTENCES).to_pylist()
    assert [row["text"] for row in sentences if row["section"] == "everyday"] == read_sentences("everyday")


def test_a_replay_decides_as_the_rule_did(folder: Path, synthesizer: Synthesizer) -> None:
    """A group's masses are known up to the part of a distribution that was left out."""
    traces, groups = Traces.read(folder), synthesizer.groups(0.3)
    recorded = traces.recorded("SD").counts
    assert np.array_equal(traces.replay(exact).counts, recorded)
    recorder = Recorder(exact)
    for said in SAID:
        unit = Unit(said, SD, 0)
        synthesizer.take(said.text, unit.settings, "two", rule=recorder)
    for rule in (coarse(groups, "thinning"), tolerant(0.4), membership(3)):
        wanted = [
            rule(drafted, torch.from_numpy(p), torch.from_numpy(q), coins).accepted
            for drafted, p, q, coins, _ in recorder.rounds
        ]
        found = traces.replay(rule)
        assert found.rounds == len(wanted)
        assert sum(found.accepted_at) == pytest.approx(sum(wanted), abs=0.02 * found.counts[:, 0].sum())
        assert not np.array_equal(found.counts, recorded)
    assert traces.replay(tolerant(1)).acceptance_of_tested == 1


def test_an_accepted_end_of_speech_ends_a_round() -> None:
    tests = [(2, True), (4, True), (1, True)], [(4, False), (1, None), (2, None)]
    rows = [
        {"method": "SD", "utterance": 0, "seed": 0, "round": i, "token": t, "accepted": a} for i in (0, 1) for t, a in tests[i]
    ]
    found = Traces(pa.Table.from_pylist(rows, SCHEMA), 5, "").recorded("SD")
    assert found.counts.tolist() == [[3, 2, 2], [3, 0, 1]]


@pytest.mark.parametrize("kind", ["entropy", "group size", "sound"])
def test_acceptance_is_told_by_parts_of_the_tests(kind: str, folder: Path, synthesizer: Synthesizer) -> None:
    row = Traces.read(folder).replay(coarse(synthesizer.groups(0.3), "thinning"))
    assert row.tested_at[0] == row.rounds
    assert row.acceptance_length == 1 + row.counts[:, 1].sum() / row.rounds
    assert row.acceptance_rate <= row.acceptance_of_tested
    parts = row.by(kind, synthesizer.voice.codec)
    assert sum(count for _, count, _ in parts) == sum(row.tested_at)
    assert sum(count * share for _, count, share in parts) == pytest.approx(sum(row.accepted_at))
    if kind != "sound":
        ends = [[float(end) for end in name.split(" to ")] for name, *_ in parts]
        assert all(before[1] <= after[0] for before, after in pairwise(ends))
    with pytest.raises(InputError, match="by is 'phone'"):
        row.by("phone")


def test_what_is_no_trace_is_refused(folder: Path, tmp_path: Path) -> None:
    traces = Traces.read(folder)
    with pytest.raises(InputError, match="method is 'SSD', but must be one of SD, PCG, top"):
        traces.recorded("SSD")
    with pytest.raises(InputError, match="traces is 'of another voice'"):
        traces.neighbours()
    with pytest.raises(AssetError):
        Traces.read(tmp_path)
    (tmp_path / TRACES).write_bytes((folder / SENTENCES).read_bytes())
    write_checksums(tmp_path)
    with pytest.raises(AssetError, match="missing or damaged"):
        Traces.read(tmp_path)
