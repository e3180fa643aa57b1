"""Spoof of a unit: the mean over windows, by whoever fits, and the same whether it is judged at once or later."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fake_worker import result_of, units_of
from torch import Tensor

from pcg.experiments.spoofing import JUDGED, judge_name, judged, spoof, unjudged
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Record, Result, Unit, Utterance
from pcg.experiments.worker import WorkerSpec
from pcg.settings import Settings
from pcg.spoof.detectors import M50, RESOLUTIONS, Detector, DetectorConfig, Detectors, Resolution, corpus_digest, save_detectors
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

CODES = 64
LONG = Utterance("The quick brown fox jumps over a lazy dog, and is this one sentence?", "one")


class Even(Detectors):
    """Finds a segment the more real, the more of its codes are even."""

    def real(self, resolution: Resolution, segments: Tensor) -> Tensor:
        assert segments.shape[1] == resolution.span == M50.span
        return (segments % 2 == 0).float().mean(1)


def untrained(codes: int = CODES, kind: type[Detectors] = Detectors) -> Detectors:
    torch.manual_seed(0)
    config = DetectorConfig(codes, width=16, heads=2, layers=1, feed_forward=16)
    return kind("untrained", {r.name: Detector(config).eval() for r in RESOLUTIONS})


def test_it_is_the_mean_over_windows_the_last_tokens_included() -> None:
    even = untrained(kind=Even)
    assert spoof(even, [1] * 49) is None
    assert spoof(even, [1] * 50) == pytest.approx(1.0)
    assert spoof(even, [2] * 57) == pytest.approx(0.0)
    # Windows begin at 0, 5 and 7; only the last of them holds all seven odd codes.
    assert spoof(even, [2] * 50 + [1] * 7) == pytest.approx((0 + 5 / 50 + 7 / 50) / 3)


def test_detectors_of_other_codes_do_not_judge(tiny_voice_folder: Path, tmp_path: Path) -> None:
    voice = load_voice(str(tiny_voice_folder))
    own, other = untrained(), untrained(CODES + 1)
    assert Synthesizer(voice, tmp_path, detectors=own).decoder.detectors is own
    assert Synthesizer(voice, tmp_path, detectors=other).decoder.detectors is None
    for corpus, fits in ((corpus_digest(voice.usage), True), (corpus_digest(voice.usage + 1), False)):
        known = replace(own, corpus=corpus)
        assert Synthesizer(voice, tmp_path, detectors=known).decoder.detectors is (known if fits else None)
    assert judge_name(own) == judge_name(untrained()) != judge_name(other)


def test_results_of_before_are_judged_by_their_tokens_and_kept(tmp_path: Path) -> None:
    unit, short = units_of(2)[:2]
    tokens = tuple(range(60))
    old = Record(unit, replace(result_of(unit), tokens=tokens), {"judges": {"WER": "parrot"}})
    brief = Record(short, result_of(short), {})
    store, detectors = Store(tmp_path), untrained()
    found = judged([old, brief], "v", store, detectors)
    judge = judge_name(detectors)
    assert [unjudged(each, judge) for each in (old, brief, found[0])] == [True, False, False]
    assert found[0].result == replace(old.result, spoof=spoof(detectors, tokens))
    assert found[0].context == {"judges": {"WER": "parrot", JUDGED: judge_name(detectors)}}
    assert found[1] == brief
    assert store.records([unit, short], "v") == [found[0]]
    assert judged(found, "v", Store(tmp_path / "unused"), detectors) == found


def test_other_detectors_judge_again(tmp_path: Path) -> None:
    unit, tokens = units_of(1)[0], tuple(range(60))
    known, other = untrained(), Even("of another corpus", untrained().by_name)
    context = {"judges": {JUDGED: judge_name(known)}}
    old = Record(unit, replace(result_of(unit), tokens=tokens, spoof=spoof(known, tokens)), context)
    (found,) = judged([old], "v", Store(tmp_path), other)
    assert found.context["judges"][JUDGED] == judge_name(other) != judge_name(known)
    assert found.result.spoof == spoof(other, tokens) != old.result.spoof


def test_a_result_of_before_is_still_read() -> None:
    kept = result_of(units_of(1)[0]).as_dict()
    assert Result.from_dict({k: v for k, v in kept.items() if k not in ("spoof", "computed")}) == result_of(units_of(1)[0])


def test_a_worker_judges_what_it_says_and_tells_what_the_search_cost(tiny_voice_folder: Path, tmp_path: Path) -> None:
    detectors = untrained()
    save_detectors(tmp_path / "detectors", "untrained", detectors.by_name, torch.float32)
    bare = WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path)
    spec = replace(bare, detectors=tmp_path / "detectors")
    assert spec.voice_id != bare.voice_id
    worker = spec.load()
    search = Settings("ar", temperature=1.0, sampler="eas", hierarchical=True)
    for settings in (search, search.with_(hierarchical=False)):
        record = worker.record(Unit(LONG, Condition("", settings), 0))
        result = record.result
        assert len(result.tokens) >= M50.span
        assert result.spoof == pytest.approx(spoof(detectors, result.tokens), abs=1e-5)
        assert record.context["judges"][JUDGED] == judge_name(detectors)
        assert (result.computed > 2 * len(result.tokens)) == settings.hierarchical
