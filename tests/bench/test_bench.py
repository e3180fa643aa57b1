"""The benchmarks run on small models and say what they promise; how fast anything is, no test asks."""

import json
import random
import re

import pytest
import torch

from pcg.acceptance.verdict import Coins
from pcg.bench.engine import bench_engine
from pcg.bench.methods import in_turns, method_speeds, pooled, step_costs
from pcg.bench.parts.rules import block_gain, overlapping_groups, rule_costs
from pcg.bench.shapes import ModelShape, forced, random_pair, shape_of
from pcg.bench.takes import adaptive_speedup, batch_speedup, first_sound_seconds
from pcg.bench.timing import medians
from pcg.cli import main
from pcg.errors import InputError
from pcg.experiments.unit import Utterance
from pcg.metrics.bound import StepCosts
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

SMALL = ModelShape(2, 32, 2, 2, 48, (0,), codes=200, others=80, tied=True)
TINY = ModelShape(2, 32, 2, 1, 48, (0,), codes=60, others=80)


def test_the_bound_is_that_of_leviathan_for_a_free_verification():
    """Their theorem 3.8: with alpha the acceptance rate and c the draft's cost, (1 - a^(L+1)) / ((1 - a)(L c + 1))."""
    alpha, lookahead, c = 0.6, 3, 0.1
    length = (1 - alpha ** (lookahead + 1)) / (1 - alpha)
    wanted = length / (lookahead * c + 1)
    assert StepCosts(ar=2.0, draft=0.2, verify=2.0).bound(length, lookahead) == pytest.approx(wanted)
    assert StepCosts(ar=2.0, draft=0.2, verify=3.0).bound(length, lookahead) < wanted


def test_works_take_turns_and_the_first_round_is_not_counted():
    calls = []
    figures = medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3
    assert set(figures) == {"a", "b"}


@pytest.mark.slow
def test_methods_are_measured_against_ar_and_their_bound(tiny_voice_folder, tmp_path):
    synthesizer = Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path)
    speeds = method_speeds(synthesizer, ["hello"], "one", Settings(), repeats=2)
    assert set(speeds) == set(METHODS)
    assert (speeds["ar"].speedup_vs_ar, speeds["ar"].bound) == (1.0, None)
    for method in METHODS[1:]:
        row = speeds[method]
        assert row.speedup_vs_ar == pytest.approx(row.tokens_per_second / speeds["ar"].tokens_per_second)
        assert row.bound_fraction == pytest.approx(row.speedup_vs_ar / row.bound)
        assert 0 <= row.acceptance_rate <= row.acceptance_of_tested <= 1
        assert list(row.acceptance_by_position) == sorted(row.acceptance_by_position, reverse=True)
    prompt = synthesizer.voice.reader.prompt("hello", synthesizer.voice.reference("one"))
    costs = step_costs(synthesizer.voice, prompt, 3, 0.8, repeats=1)
    assert min(costs.ar, costs.draft, costs.verify) > 0


def test_takes_in_turns_are_pooled_as_one(tiny_voice_folder, tmp_path):
    synthesizer = Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path)
    texts = ["hello [pause:0.5] yes", "yes [pause:0.3] hello"]
    takes = in_turns(synthesizer, texts, Settings(seed=3), "one", random.Random(0))
    assert list(takes) == list(METHODS)
    for method, said in takes.items():
        assert [(take.text, take.settings.method, take.settings.seed) for take in said] == [(t, method, 3) for t in texts]
        one, other = said
        both = pooled(said)
        assert both.tokens == one.tokens + other.tokens
        assert both.wall_seconds == one.wall_seconds + other.wall_seconds
        assert both.audio_seconds == pytest.approx(one.audio_seconds + other.audio_seconds)
        assert both.pauses == (*one.pauses, *((len(one.tokens) + at, seconds) for at, seconds in other.pauses))
        slow, fast = sorted(take.tokens_per_second for take in said)
        assert slow <= both.tokens_per_second <= fast
        assert both.decoding_ms == pytest.approx(one.decoding_ms + other.decoding_ms)


@pytest.mark.slow
def test_the_bench_tells_what_rounds_allow_beside_the_speed_of_takes(tiny_voice_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pcg.bench.engine.EMBEDDED", tiny_voice_folder)
    for name, value in (("generate.TOKENS", 6), ("engine.TURNS", 2), ("timing.COPY_MIB", 1), ("takes.BATCH", 2)):
        monkeypatch.setattr(f"pcg.bench.{name}", value)
    small = rule_costs(3, tokens=12, shape=SMALL)
    monkeypatch.setattr("pcg.bench.engine.rule_costs", lambda lookahead: small)
    figures = bench_engine(Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path), Settings(), repeats=1)
    told = capsys.readouterr().out.splitlines()
    assert figures["expected_speedup"]["ar"] is None
    for method in METHODS[1:]:
        length, expected = figures["mean_acceptance_length"][method], figures["expected_speedup"][method]
        assert expected == pytest.approx(length / figures["round_cost"]["3"], rel=1e-3)
        line = next(line for line in told if line.startswith(f"{method}: "))
        shown = [float(number) for number in re.search(r"E/R ([\d.]+)x, bound ([\d.]+)x", line).groups()]
        assert shown == pytest.approx([expected, figures["bound"][method]], abs=0.006)
        assert f"{figures['acceptance_of_tested'][method]:.0%} of tested tokens" in line
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.slow
def test_batches_streams_and_adaptive_lookahead_are_timed(tiny_voice_folder, tmp_path):
    synthesizer = Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path)
    for measure in (batch_speedup, first_sound_seconds, adaptive_speedup):
        assert measure(synthesizer, "hello", "one", Settings("sd"), 1) > 0


def test_groups_for_the_rule_overlap_and_have_the_wanted_size():
    groups = overlapping_groups(1000, 40)
    figures = groups.statistics()
    assert figures.vocab == 1001
    assert figures.mean_size == pytest.approx(40, rel=0.1)
    assert int(groups.count[:-1].min()) > 1
    assert groups.size(int(groups.group_of_centre[-1])) == 1


def test_the_rules_of_sd_and_pcg_are_timed_in_one_run():
    costs = rule_costs(2, tokens=12, shape=SMALL)
    assert set(costs) == {"sd", "pcg"}
    assert all(0 < cost.share < 1 and cost.rule_ms < cost.round_ms for cost in costs.values())


def test_block_verification_is_expected_to_gain_over_the_same_drafts(tiny_voice_folder, tmp_path):
    synthesizer = Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path)
    said = [Utterance("hello", "one"), Utterance("yes", "two")]
    for method in ("sd", "pcg"):
        gain = block_gain(synthesizer, said, Settings(method, theta=0.3, lookahead=4))
        assert 1 <= gain.token < gain.block <= 5
        alone = block_gain(synthesizer, said, Settings(method, theta=0.3, lookahead=1))
        assert alone.token == pytest.approx(alone.block)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_forced_acceptance_accepts_as_it_is_told(rate):
    coins = Coins.draw(3, torch.Generator().manual_seed(0))
    laws = torch.full((4, 8), 1 / 8)
    verdict = forced(rate)(torch.tensor([1, 2, 3]), laws[:3], laws, coins)
    assert verdict.accepted == 3 * rate
    assert verdict.next_kind == ("bonus" if rate else "resampled")


def test_a_shape_has_its_draft_and_its_vocabulary():
    target, draft = random_pair(TINY, "cpu")
    assert (target.weights.layers, draft.weights.layers) == (2, 1)
    assert target.vocabulary.size == draft.vocabulary.size == 61
    assert target.bytes_per_step > draft.bytes_per_step


def test_a_voice_of_another_size_drafts_from_its_hidden_states():
    target, draft = random_pair(shape_of("3x128"), "cpu")
    assert (target.weights.layers, target.embedding.shape[1], target.heads) == (3, 128, 2)
    assert draft.tapped == (1, 2, 3)
    assert target.compiled == draft.compiled
    assert draft.head_down.shape == (96, 128)


@pytest.mark.parametrize("name", ["12x100", "0x256", "12x", "x256", "12x256x4", "-1x64"])
def test_a_shape_that_no_kernel_reads_is_named(name):
    with pytest.raises(InputError, match="multiples of 64"):
        shape_of(name)


@pytest.mark.slow
def test_the_sweep_is_written_as_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pcg.bench.shapes.TOKENS", 8)
    out = tmp_path / "sweep.json"
    assert main(["bench", "shape", "--shape", "small", "--repeats", "1", "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed == json.loads(out.read_text())
    assert set(printed["tokens_per_second"]) == {str(n) for n in range(1, 9)}
    assert printed["ar_tokens_per_second"] > 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--repeats", "0"], "repeats"), (["--threads", "0"], "threads"), (["shape", "--shape", "huge"], "shape")],
)
def test_bad_input_is_one_sentence(arguments, named, capsys):
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
