"""What rounds cost, and what follows from it: the parts belong together, and the verdict is the arithmetic's."""

import json

import pytest

from pcg.bench.costs import Breakeven, RoundCosts, method_figures, pooled, round_costs, will_it_pay
from pcg.bench.engine import said_in_turns
from pcg.cli import main
from pcg.errors import InputError
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice


def costs(ar, fixed, more, most=8):
    """Rounds that cost `fixed` and `more` for each draft, of which a draft step is half and the rest the wider pass."""
    counts = range(1, most + 1)
    draft = {n: n * more / 2 for n in counts}
    verify = {n: fixed + n * more / 2 for n in counts}
    return RoundCosts(ar, draft, verify, {n: fixed + n * more for n in counts}, ar)


def test_real_rounds_are_timed_by_lookahead(synthesizer):
    voice = synthesizer.voice
    found = round_costs(voice, voice.reader.prompt("hello", voice.references["one"]), 0.8, (1, 3), turns=3)
    assert set(found.pass_cost) == {1, 2, 4}
    assert set(found.round_cost) == {1, 3}
    assert min(found.ar, found.first, *found.draft.values(), *found.verify.values()) > 0
    assert found.whole[3] >= found.verify[3]


def test_the_verdict_is_the_fastest_of_expected_tokens_over_cost():
    found = Breakeven.of(costs(1.0, 1.0, 0.1), {"sd": [0.5] * 8, "pcg": [0.8] * 8})
    method, lookahead, speedup = found.winner
    assert method == "pcg"
    assert speedup == pytest.approx(max(sum(0.8**i for i in range(n + 1)) / (1 + 0.1 * n) for n in range(1, 9)))
    assert found.speedups["pcg"][lookahead] == speedup
    assert found.best("sd") == (2, pytest.approx(1.75 / 1.2))
    assert "PCG pays" in found.sentence
    assert f"{found.best('sd')[1]:.2f} x at lookahead 2" in found.sentence


def test_where_nothing_is_faster_it_says_so():
    found = Breakeven.of(costs(1.0, 1.5, 0.5), {"sd": [0.3, 0.2], "pcg": [0.4]})
    assert found.winner == ("ar", 0, 1.0)
    assert "Nothing pays" in found.sentence
    assert f"{1.4 / 2:.2f} x AR" in found.sentence


def test_a_voice_is_judged_and_one_without_a_draft_refused(synthesizer, tiny_voice_folder, tmp_path):
    found = will_it_pay(synthesizer, Settings(), (1, 2, 3), ("hello", "yes"))
    assert set(found.speedups) == {"sd", "ssd", "pcg"}
    assert json.loads(json.dumps(found.as_dict()))["pass_cost"].keys() == {"v1", "v2", "v3", "v4"}
    with pytest.raises(InputError, match="draft is 'none'"):
        will_it_pay(Synthesizer(load_voice(str(tiny_voice_folder), draft="none"), tmp_path), Settings())


@pytest.mark.slow
def test_the_command_answers_in_a_sentence_and_json(tiny_voice_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", tmp_path)
    assert main(["bench", "quick", "--model", str(tiny_voice_folder)]) == 0
    sentence, figures = capsys.readouterr().out.splitlines()
    assert json.loads(figures)["sentence"] == sentence


def test_block_verification_is_an_option_of_those_methods_that_know_it(tiny_voice_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", tmp_path)
    speak = ["speak", "hello", "--model", str(tiny_voice_folder), "--out", str(tmp_path / "a.wav"), "--json"]
    assert main([*speak, "--method", "sd", "--verification", "block"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["settings"]["verification"] == "block"
    for bad in (["--verification", "block"], ["--verification", "tree"]):
        assert main([*speak, *bad]) == 2
        assert "verification" in capsys.readouterr().err


def test_the_bound_is_that_of_leviathan_for_a_free_verification():
    """Theorem 3.8: with alpha the acceptance rate and c the draft's cost, (1 - a^(L+1)) / ((1 - a)(L c + 1))."""
    alpha, lookahead, c = 0.6, 3, 0.1
    length = (1 - alpha ** (lookahead + 1)) / (1 - alpha)
    wanted = length / (lookahead * c + 1)
    free, dear = (RoundCosts(2.0, {3: 3 * 0.2}, {3: verify}, {3: 0.0}, 2.0) for verify in (2.0, 3.0))
    assert free.bound(length, lookahead) == pytest.approx(wanted)
    assert dear.bound(length, lookahead) < wanted


def test_methods_say_texts_in_turns_and_their_pooled_takes_are_measured_against_ar_and_the_bound(synthesizer):
    text = "hello [pause:0.5] yes"
    takes = said_in_turns(synthesizer, text, Settings(seed=3), "one", 2, reseed=True)
    assert list(takes) == list(METHODS)
    for method, (one, other) in takes.items():
        assert [(take.text, take.settings.method, take.settings.seed) for take in (one, other)] == [
            (text, method, seed) for seed in (3, 4)
        ]
        both = pooled([one, other])
        assert both.tokens == one.tokens + other.tokens
        assert both.wall_seconds == one.wall_seconds + other.wall_seconds
        assert both.audio_seconds == pytest.approx(one.audio_seconds + other.audio_seconds)
        assert both.pauses == (*one.pauses, *((len(one.tokens) + at, seconds) for at, seconds in other.pauses))
        slow, fast = sorted(take.tokens_per_second for take in (one, other))
        assert slow <= both.tokens_per_second <= fast
    voice = synthesizer.voice
    costs = round_costs(voice, voice.reader.prompt("hello", voice.reference("one")), 0.8, (3,), turns=3)
    rows = method_figures({method: pooled(both) for method, both in takes.items()}, costs, 3)
    assert (rows["ar"]["speedup"], rows["ar"]["bound"]) == (1.0, None)
    for row in (rows[method] for method in METHODS[1:]):
        assert row["speedup"] == pytest.approx(row["tokens_per_second"] / rows["ar"]["tokens_per_second"], rel=1e-3)
        assert row["bound_fraction"] == pytest.approx(row["speedup"] / row["bound"], rel=1e-2)
        assert 0 <= row["acceptance_rate"] <= row["acceptance_of_tested"] <= 1
