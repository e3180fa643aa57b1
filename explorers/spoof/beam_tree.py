"""The search by spoof detectors as HTML: its beams as a tree over time, and figures.

Built from numbers and fixed words only: a user's input never reaches it.
"""

from collections.abc import Iterator
from pathlib import Path

import gradio as gr

from explorers.shared.spoof_curves import spoken
from explorers.shared.terms import term_html
from explorers.spoof.actions import SpoofTake
from explorers.spoof.beams import PLAN, Fan, HeardBranch, ShownBeam, Tree
from explorers.spoof.ways import WAYS
from pcg.errors import counted
from pcg.spoof.detectors import M10, M25, M50

STYLES = Path(__file__).with_name("beam_tree.css")
SCRIPT = Path(__file__).with_name("beam_tree.js")
PICK = "pick"
# Pixels. A second is as wide in every tree, and a long one scrolls.
SECOND, LANE, BEFORE, BEHIND, ABOVE, BELOW, MARK = 230, 18, 14, 26, 22, 24, 4
SPREAD_TOKENS = 5
JUDGES = (M10.name, M25.name, M50.name)
EMPTY = '<p class="beams-note">The beams appear here after a run with this scheme.</p>'
PROMPT = "Point at a beam to read its scores. Click it to hear the utterance up to its end. Arrow keys move, Enter plays."
FATES = {
    "chosen": "chosen",
    "lost": f"not chosen after {PLAN.stages[2]}",
    "second": f"pruned after {PLAN.stages[1]}",
    "first": f"pruned after {PLAN.stages[0]} tokens",
}


def create_tree() -> gr.HTML:
    """Lay the tree out within the Blocks that is being built; its value is what `tree_html` makes. Its event PICK brings the
    `cycle` and the `beam` that were picked, from 1."""
    script = SCRIPT.read_text(encoding="utf-8")
    return gr.HTML(EMPTY, js_on_load=script, apply_default_css=False, elem_id="spoof-tree")


def tree_html(tree: Tree | None) -> str:
    """Every beam a line from its cycle's beginning to its end, a lane each, in the colour of its scores."""
    if tree is None:
        return EMPTY
    if not tree.cycles:
        return f'<p class="beams-note">The take ended within the {PLAN.warmup} tokens of the warm-up, before any beams.</p>'
    count = max(len(fan.beams) for fan in tree.fans)
    seconds = max(fan.start + max(len(beam.tokens) for beam in fan.beams) for fan in tree.fans) / tree.rate
    width, height = BEFORE + round(seconds * SECOND) + BEHIND, ABOVE + LANE * count + BELOW
    label = f"Beams of {WAYS[tree.way].name}: {counted(len(tree.cycles), 'cycle')} in {seconds:.1f} s"
    drawn = _axis(seconds, height) + "".join(_fans(tree, count))
    return (
        f'<div class="beams"><div class="beams-plane"><svg width="{width}" height="{height}" role="group" aria-label="{label}">'
        f'{drawn}</svg></div><p class="beams-note" data-part="note" aria-hidden="true">{PROMPT}</p>{_legend()}</div>'
    )


def way_html(key: str, said: SpoofTake | None = None) -> str:
    """The heading of a scheme, and the cost of its take."""
    way = WAYS[key]
    return f'<header class="title"><h2>{way.name}</h2><p>{way.note}</p></header>{_figures(said)}'


def branch_html(branch: HeardBranch) -> str:
    """A description of the sound: its end, and the start of the selected beam."""
    name, beam = WAYS[branch.way].name, branch.beam
    ends = len(branch.samples) / branch.sample_rate
    fate = FATES[_fate(branch.fan, beam)].removesuffix(" tokens")
    return (
        f'<p class="beams-note" role="status"><b>{name}, cycle {branch.cycle}, beam {beam.number}</b> ({fate}). Up to '
        f"{branch.from_seconds:.2f} s the original take, then this beam up to {ends:.2f} s.</p>"
    )


def _figures(said: SpoofTake | None) -> str:
    values = ["–"] * 4
    if said is not None:
        take = said.take
        rtf = f"{take.rtf:.2f}" if len(take.audio) else "–"
        values = [f"{take.computed_per_token:.1f}", rtf, f"{take.audio_seconds:.1f} s", f"{len(take.tokens)}"]
    computed, *others = values
    names = (term_html("rtf", "real-time factor"), "audio", "tokens")
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in zip(names, others, strict=True))
    cut = '<p class="notes">cut at the length limit</p>' if said is not None and said.take.hit_limit else ""
    return (
        '<div class="readout spoof-readout"><p class="headline"><span><b>'
        f"{computed}</b> tokens computed for each token of the take</span></p><dl>{items}</dl>{cut}</div>"
    )


def _fans(tree: Tree, count: int) -> Iterator[str]:
    """The beams of a cycle start where the chosen one of the cycle before ended."""
    lane, number = (count - 1) / 2, 0
    for fan in tree.fans:
        searched = len(fan.beams) > 1
        number += searched
        x = BEFORE + fan.start / tree.rate * SECOND
        if searched:
            yield f'<text class="cycle" x="{x + 4:.1f}" y="{ABOVE - 10}">cycle {number}</text>'
            yield f'<path class="edge" d="M{x:.1f} {ABOVE - 6}V{ABOVE + LANE * count}"/>'
        # The chosen one last, so that it lies above the others.
        for beam in sorted(fan.beams, key=lambda each: each.number == fan.chosen):
            yield _beam(fan, beam, number, tree.rate, lane) if searched else _warm_up(fan, tree.rate, lane)
        lane = fan.chosen - 1 if searched else lane


def _beam(fan: Fan, beam: ShownBeam, cycle: int, rate: float, lane: float) -> str:
    def x(token: float) -> str:
        return f"{BEFORE + (fan.start + token) / rate * SECOND:.1f}"

    root, y = _y(lane), _y(beam.number - 1)
    turn = min(SPREAD_TOKENS, len(beam.tokens))
    curve = f"M{x(0)} {root}C{x(turn / 2)} {root} {x(turn / 2)} {y} {x(turn)} {y}"
    fate, stages, begun = _fate(fan, beam), [], 0
    for judge, end in zip(JUDGES, beam.lengths, strict=False):
        if end > begun or begun == 0:
            path = f"{curve}H{x(max(turn, end))}" if begun == 0 else f"M{x(max(turn, begun))} {y}H{x(max(turn, end))}"
            stages.append(f'<path class="stage" style="--real:{beam.scores[judge]:.1%}" d="{path}"/>')
        begun = max(begun, end)
    first = " tabindex=0" if cycle == 1 and beam.number == 1 else " tabindex=-1"
    return (
        f'<g class="beam {fate}" role="button" aria-pressed="false" data-cycle="{cycle}" data-beam="{beam.number}"{first} '
        f'aria-label="{_description(fan, beam, cycle, rate)}"><path class="hit" d="{curve}H{x(len(beam.tokens))}"/>'
        f"{''.join(stages)}{_mark(fate, float(x(len(beam.tokens))), float(y))}</g>"
    )


def _warm_up(fan: Fan, rate: float, lane: float) -> str:
    begin, end = (BEFORE + at / rate * SECOND for at in (fan.start, fan.start + len(fan.kept.tokens)))
    return f'<path class="warm-up" d="M{begin:.1f} {_y(lane)}H{end:.1f}"/>'


def _fate(fan: Fan, beam: ShownBeam) -> str:
    if beam.number == fan.chosen:
        return "chosen"
    return ("first", "second", "lost")[beam.stages - 1]


def _mark(fate: str, x: float, y: float) -> str:
    """The mark at the end of a beam shows its fate: a cross, a bar, a ring; the chosen beam continues."""
    shapes = {
        "first": f"M{x - MARK} {y - MARK}l{2 * MARK} {2 * MARK}m0 {-2 * MARK}l{-2 * MARK} {2 * MARK}",
        "second": f"M{x} {y - MARK - 1}v{2 * MARK + 2}",
        "lost": f"M{x} {y}a{MARK} {MARK} 0 1 0 {2 * MARK} 0a{MARK} {MARK} 0 1 0 {-2 * MARK} 0",
    }
    return f'<path class="mark" d="{shapes[fate]}"/>' if fate in shapes else ""


def _description(fan: Fan, beam: ShownBeam, cycle: int, rate: float) -> str:
    """Number, scores in the order of the stages, each with its place, and the rank."""
    begin, end = fan.start / rate, (fan.start + len(beam.tokens)) / rate
    scores = []
    for name, score in beam.scores.items():
        place, of = fan.place(beam, name)
        scores.append(f"{spoken(name)} {score:.2f} ({place} of {of})")
    rank = "" if beam.rank is None else f"; sum of ranks {beam.rank:g}"
    return (
        f"Cycle {cycle}, beam {beam.number}, {begin:.2f} to {end:.2f} s: {FATES[_fate(fan, beam)]}; "
        f"real to {', '.join(scores)}{rank}"
    )


def _axis(seconds: float, height: int) -> str:
    base = height - BELOW + 2
    ticks = "".join(
        f'<path class="tick" d="M{BEFORE + s * SECOND} {base}v5"/><text x="{BEFORE + s * SECOND}" y="{height - 6}">{s} s</text>'
        for s in range(int(seconds) + 1)
    )
    return f'<path class="tick" d="M{BEFORE} {base}H{BEFORE + seconds * SECOND:.1f}"/>{ticks}'


def _legend() -> str:
    def entry(fate: str) -> str:
        line = f'<path class="stage" style="--real:60%" d="M0 7H{26 if fate == "chosen" else 20}"/>{_mark(fate, 20, 7)}'
        return f'<li><svg width="30" height="14" aria-hidden="true"><g class="beam {fate}">{line}</g></svg>{FATES[fate]}</li>'

    ramp = (
        '<li><i class="beams-ramp" aria-hidden="true"></i>colour: from synthetic (0) to real (1), by M10, M25, M50 in turn</li>'
    )
    return f'<ul class="beams-legend" aria-label="Legend of the beams">{"".join(map(entry, FATES))}{ramp}</ul>'


def _y(lane: float) -> str:
    return f"{ABOVE + LANE * (lane + 0.5):g}"
