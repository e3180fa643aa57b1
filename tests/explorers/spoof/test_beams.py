"""What the Spoof panel does, on the tiny voice, with detectors that are trained on nothing."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorers.shared.spoof_curves import curves_html
from explorers.spoof.actions import NOTE, SpoofRequest, SpoofTake, as_record, can_judge, generate_all
from explorers.spoof.beam_tree import FATES, branch_html, tree_html, way_html
from explorers.spoof.beams import PLAN, ShownBeam, Tree, hear_branch
from explorers.spoof.ways import SEARCHED, WAYS
from pcg.errors import InputError, PCGError
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS, Detector, DetectorConfig, Detectors
from pcg.synthesis.synthesizer import Synthesizer

TEXT = "The quick brown fox jumps."
ASKED = SpoofRequest(TEXT, "one", "ar", 1.0, 3)


def untrained(codes: int) -> Detectors:
    torch.manual_seed(0)
    config = DetectorConfig(codes, width=16, heads=2, layers=1, feed_forward=16)
    return Detectors("untrained", {r.name: Detector(config).eval() for r in RESOLUTIONS})


@pytest.fixture(scope="module")
def judging(synthesizer: Synthesizer) -> Synthesizer:
    return Synthesizer(synthesizer.voice, detectors=untrained(64))


@pytest.fixture(scope="module")
def said(judging: Synthesizer) -> dict[str, SpoofTake]:
    return {step.done.way: step.done for step in generate_all(judging, ASKED) if step.done}


@pytest.fixture(scope="module")
def tree(said: dict[str, SpoofTake]) -> Tree:
    return said["hiereas"].tree


def test_the_presets_are_the_papers() -> None:
    settings = {key: (w.settings.sampler, w.settings.top_k, w.settings.top_p) for key, w in WAYS.items()}
    assert settings["original"] == ("plain", 50, 0.0)
    assert settings["top_p"] == ("plain", 50, 0.8)
    assert settings["ras"] == settings["hierras"] == ("ras", 50, 0.8)
    assert settings["eas"] == settings["hiereas"] == ("eas", 50, 0.8)
    assert all(w.settings.temperature == 1.0 for w in WAYS.values())
    assert SEARCHED == ("hierras", "hiereas")
    assert (PLAN.warmup, PLAN.stages, PLAN.beams) == (20, (10, 25, 50), (8, 5, 3))


def test_each_way_says_what_the_synthesizer_says_by_itself(judging: Synthesizer, said: dict[str, SpoofTake]) -> None:
    assert list(said) == list(WAYS)
    own = Settings("ar", temperature=1.0, seed=3, sampler="eas", top_k=50, top_p=0.8)
    for key, hierarchical in (("eas", False), ("hiereas", True)):
        alone = judging.take(TEXT, own.with_(hierarchical=hierarchical), "one")
        assert said[key].take.tokens == alone.tokens
    assert len({each.take.tokens for each in said.values()}) == len(WAYS)


def test_spoof_is_the_mean_of_one_minus_real(judging: Synthesizer, said: dict[str, SpoofTake]) -> None:
    for each in said.values():
        curves = judging.decoder.detectors.curves(each.take.tokens)
        for name, mean in each.spoof.items():
            expected = float(curves[name].mean())
            assert mean is None if math.isnan(expected) else mean == pytest.approx(expected, abs=1e-4)
    assert any(mean is not None for mean in said["original"].spoof.values())


def test_a_search_costs_several_tokens_for_each_heard(said: dict[str, SpoofTake]) -> None:
    plain, searched = (said[key].record()["computed_per_token"] for key in ("eas", "hiereas"))
    assert plain == pytest.approx(1, abs=0.05)
    assert searched > 2


def test_the_tree_is_the_engines_search(said: dict[str, SpoofTake], tree: Tree) -> None:
    take = said["hiereas"].take
    assert tuple(token for fan in tree.fans for token in fan.kept.tokens) == take.tokens
    assert len(tree.fans) == len(take.cycles)
    assert len(tree.cycles) > 0
    for fan in tree.cycles:
        assert [beam.number for beam in fan.beams] == list(range(1, 9))
        assert sorted(beam.stages for beam in fan.beams) == [1, 1, 1, 2, 2, 3, 3, 3]
        assert fan.kept.stages == 3
        assert take.tokens[fan.start : fan.start + len(fan.kept.tokens)] == fan.kept.tokens
        for beam in fan.beams:
            if beam.stages == 1:
                place, of = fan.place(beam, "M10")
                assert (place > 5 or tied(fan.beams, beam), of) == (True, 8)


def tied(beams: tuple[ShownBeam, ...], beam: ShownBeam) -> bool:
    return sum(each.scores["M10"] == beam.scores["M10"] for each in beams) > 1


def test_the_chosen_beam_sounds_as_the_take_and_a_pruned_one_differs_from_its_beginning_on(
    judging: Synthesizer, said: dict[str, SpoofTake], tree: Tree
) -> None:
    hop, trees = judging.voice.codec.hop, {"hiereas": tree}
    number, fan = len(tree.cycles), tree.cycles[-1]
    whole = hear_branch(judging, trees, "hiereas", number, fan.chosen)
    if fan is tree.fans[-1]:
        np.testing.assert_array_equal(whole.samples, said["hiereas"].take.audio)
    pruned = next(beam for beam in fan.beams if beam.stages == 1 and beam.tokens)
    branch = hear_branch(judging, trees, "hiereas", number, pruned.number)
    assert len(branch.samples) == hop * (fan.start + len(pruned.tokens))
    assert branch.from_seconds == pytest.approx(hop * fan.start / branch.sample_rate)
    # A codec looks around a token, so what lies well before the beam is the same, and what lies in it is not.
    before = hop * (fan.start - 12)
    error = branch.samples[:before] - whole.samples[:before]
    assert np.square(error).mean() < 1e-6 * np.square(whole.samples[:before]).mean(), "-60 dB: rounding, and no sound"
    ends = (each.samples[hop * fan.start : min(len(branch.samples), len(whole.samples))] for each in (branch, whole))
    assert not np.allclose(*ends, atol=3e-4)


def test_a_long_text_is_searched_and_decoded_piece_by_piece(judging: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = ["Hello.", "Yes."]
    monkeypatch.setattr(Synthesizer, "script", lambda self, text: halves)
    take = judging.take(" ".join(halves), ASKED.settings(WAYS["hierras"]), "one")
    tree = Tree.of("hierras", take, 50.0)
    pieces = sorted({fan.piece for fan in tree.fans})
    assert len(pieces) == 2
    assert 0 < pieces[1] < len(take.tokens)
    last = tree.fans[-1]
    found = tree.pieces(last, last.kept)
    assert [len(piece) for piece in found] == [pieces[1], len(take.tokens) - pieces[1]]
    speaker = judging.voice.reference("one")
    np.testing.assert_array_equal(np.concatenate([judging.decode(piece, speaker) for piece in found]), take.audio)


def test_spoof_guided_pcg_searches_too(judging: Synthesizer) -> None:
    take = judging.take("Hello.", replace(ASKED, method="pcg").settings(WAYS["hiereas"]), "one")
    tree = Tree.of("hiereas", take, 50.0)
    assert tuple(token for fan in tree.fans for token in fan.kept.tokens) == take.tokens
    assert take.drafted
    assert tree_html(tree).count('role="button"') == 8 * len(tree.cycles) > 0


def test_a_record_is_json_and_says_n_is_1(said: dict[str, SpoofTake]) -> None:
    record = json.loads(json.dumps(as_record(ASKED, list(said.values())), allow_nan=False))
    assert (record["n"], record["text"], record["note"]) == (1, TEXT, NOTE)
    assert list(record["ways"]) == list(WAYS)
    ways = record["ways"]
    assert ways["eas"]["cycles"] == []
    assert set(ways["eas"]["spoof"]) == {"M50", "M25", "M10", "M50<-25", "M50<-10"}
    assert len(ways["hiereas"]["cycles"][0]["beams"]) == 8
    assert ways["hiereas"]["settings"]["sampler"] == "eas"


REFUSED: list[tuple[Callable[[Synthesizer, Tree], object], str]] = [
    (lambda s, tree: hear_branch(s, {"hiereas": tree}, "eas", 1, 1), "way is 'eas', but must be one of hierras, hiereas"),
    (lambda s, tree: hear_branch(s, {"hiereas": tree}, "hierras", 1, 1), "no beams of HierRAS yet"),
    (lambda s, tree: hear_branch(s, {"hiereas": tree}, "hiereas", 0, 1), "cycle is 0, but must be a whole number from 1 to"),
    (lambda s, tree: hear_branch(s, {"hiereas": tree}, "hiereas", 1, 9), "beam is 9, but must be a whole number from 1 to 8"),
    (lambda s, tree: hear_branch(s, {"hiereas": tree}, "hiereas", 1, 1.5), "beam is 1.5"),
    (lambda s, tree: hear_branch(s, {"hiereas": tree}, "hiereas", None, 1), "cycle is missing"),
    (lambda s, tree: hear_branch(s, {"hiereas": replace(tree, fans=())}, "hiereas", 1, 1), "no beams to choose from"),
    (lambda s, tree: list(generate_all(s, replace(ASKED, text=" "))), "text is missing"),
    (lambda s, tree: list(generate_all(s, replace(ASKED, method="fast"))), "method is 'fast'"),
    (lambda s, tree: list(generate_all(s, replace(ASKED, voice="nobody"))), "voice is 'nobody'"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_bad_input_is_one_sentence(
    call: Callable[[Synthesizer, Tree], object], sentence: str, judging: Synthesizer, tree: Tree
) -> None:
    with pytest.raises(PCGError, match=sentence):
        call(judging, tree)


def test_detectors_of_other_codes_cannot_judge(judging: Synthesizer) -> None:
    assert can_judge(judging)
    assert not can_judge(Synthesizer(judging.voice, detectors=untrained(65)))
    with pytest.raises(InputError, match="whose codes the spoof detectors know"):
        list(generate_all(Synthesizer(judging.voice, detectors=untrained(65)), replace(ASKED, text="hello")))


def test_every_beam_is_drawn_and_told_with_its_fate_in_form_and_words(tree: Tree) -> None:
    html = tree_html(tree)
    beams = sum(len(fan.beams) for fan in tree.cycles)
    assert html.count('role="button"') == beams
    assert html.count('tabindex="0"') + html.count("tabindex=0") == 1
    for fate, count in (("chosen", 1), ("lost", 2), ("second", 2), ("first", 3)):
        drawn = [part for part in html.split("<g class=")[1:] if part.startswith(f'"beam {fate}" role="button"')]
        assert len(drawn) == count * len(tree.cycles)
        assert all(('class="mark"' in part.split("</g>")[0]) == (fate != "chosen") for part in drawn)
        assert all(FATES[fate] in part for part in drawn)
    fan = tree.cycles[0]
    kept = fan.kept
    assert f"M10 {kept.scores['M10']:.2f} ({fan.place(kept, 'M10')[0]} of 8)" in html
    assert f"sum of ranks {kept.rank:g}" in html
    assert f"M50 from 25 {kept.scores['M50<-25']:.2f}" in html


def test_a_short_utterance_has_no_beams_and_no_long_curve(judging: Synthesizer, said: dict[str, SpoofTake], tree: Tree) -> None:
    assert "before any beams" in tree_html(replace(tree, fans=tree.fans[:1]))
    whole = said["eas"].take
    for count, lines in ((5, 0), (12, 1), (30, 2)):
        rounds = whole.rounds[:count]
        short = replace(whole, rounds=rounds, audio=whole.audio[: count * judging.voice.codec.hop])
        curves = {name: curve.numpy() for name, curve in judging.decoder.detectors.curves(short.tokens).items()}
        html = curves_html(curves, short.audio_seconds)
        assert html.count("<polyline") == lines
        assert html.count("<dd>too short</dd>") == 5 - lines


def test_a_take_without_sound_has_no_curves_and_no_seconds() -> None:
    html = curves_html({r.name: [] for r in RESOLUTIONS}, 0.0)
    assert "<polyline" not in html
    assert " s</span>" not in html


def test_cards_tell_cost_and_curves(said: dict[str, SpoofTake], judging: Synthesizer, tree: Tree) -> None:
    searched = said["hiereas"]
    assert f"<b>{searched.take.computed_per_token:.1f}</b> tokens computed for each token of the take" in way_html(
        "hiereas", searched
    )
    assert "<b>–</b>" in way_html("ras")
    html = curves_html(searched.curves, searched.take.audio_seconds)
    present = [mean for mean in searched.spoof.values() if mean is not None]
    assert html.count("<polyline") == len(present) > 0
    assert all(f"<dd>{mean:.2f}</dd>" in html for mean in present)
    assert "M50&lt;-25" in html
    branch = hear_branch(judging, {"hiereas": tree}, "hiereas", 1, 2)
    assert "HierEAS, cycle 1, beam 2" in branch_html(branch)
