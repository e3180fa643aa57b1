"""The beams of a search by spoof detectors (MSpoofTTS, Algorithm 2) as a tree over time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from explorers.shared.terms import term_html
from pcg.decode.beam_search import Hierarchy
from pcg.errors import counted
from pcg.spoof.detectors import M10, M25, M50
from pcg.take import Branch, Cycle, Take

SCRIPT = Path(__file__).with_name("more.js")
PLAN = Hierarchy()
# Pixels; a second is as wide in every tree, and a long tree scrolls.
SECOND, LANE, BEFORE, BEHIND, ABOVE, BELOW, MARK = 230, 18, 14, 70, 22, 24, 4
SPREAD_TOKENS = 5
JUDGES = (M10.name, M25.name, M50.name)
EMPTY = '<p class="beams-note">The beams appear here after a run.</p>'
PROMPT = "Point at a beam to read its scores, or walk with the arrow keys."
FATES = {
    "chosen": "chosen",
    "lost": f"not chosen after {PLAN.stages[2]}",
    "second": f"pruned after {PLAN.stages[1]}",
    "first": f"pruned after {PLAN.stages[0]} tokens",
}
HEADING = f"""<h3>Beams</h3><p class="beams-note">After {PLAN.warmup} tokens, {PLAN.beams[0]} {term_html("beam", "beams")}
continue from one position; {PLAN.beams[1]} are left after {PLAN.stages[0]} tokens, {PLAN.beams[2]} after {PLAN.stages[1]}, and
after {PLAN.stages[2]} the one with the best sum of ranks is chosen.</p>"""


@dataclass(frozen=True)
class Fan:
    """All beams that continue from token `start` of the utterance. One beam alone is a warm-up."""

    start: int
    cycle: Cycle

    @property
    def beams(self) -> tuple[Branch, ...]:
        return self.cycle.branches

    @property
    def kept(self) -> Branch:
        return self.beams[self.cycle.chosen]

    def fate(self, beam: Branch) -> str:
        return "chosen" if beam is self.kept else ("first", "second", "lost")[beam.stages - 1]

    def place(self, beam: Branch, resolution: str) -> tuple[int, int]:
        """Return the place of `beam` by one detector, 1 being the most real, and the number of beams that it scored."""
        scores = [other.scores[resolution] for other in self.beams if resolution in other.scores]
        return 1 + sum(score > beam.scores[resolution] for score in scores), len(scores)


@dataclass(frozen=True)
class Tree:
    """The beams of one utterance, `rate` tokens a second; `name` is the sampler's."""

    name: str
    rate: float
    fans: tuple[Fan, ...]

    @classmethod
    def of(cls, name: str, take: Take, rate: float) -> "Tree":
        """Read the cycles of a take; the engine counts their tokens from the beginning of a piece of the text."""
        fans: list[Fan] = []
        start = 0
        for cycle in take.cycles:
            fans.append(Fan(start, cycle))
            start += len(fans[-1].kept.tokens)
        return cls(name, rate, tuple(fans))

    @property
    def cycles(self) -> tuple[Fan, ...]:
        """The fans with a choice; the page counts them, and their beams, from 1."""
        return tuple(fan for fan in self.fans if len(fan.beams) > 1)


def spoken(resolution: str) -> str:
    """Return a resolution's name without the sign of markup in it."""
    return resolution.replace("<-", " from ")


def tree_html(tree: Tree) -> str:
    """Every beam as a line from its cycle's beginning to its end, in the colour of its scores; built from numbers alone."""
    if not tree.cycles:
        return f'<p class="beams-note">The take ended within the {PLAN.warmup} tokens of the warm-up, before any beams.</p>'
    lanes = max(len(fan.beams) for fan in tree.fans)
    seconds = max(fan.start + max(len(beam.tokens) for beam in fan.beams) for fan in tree.fans) / tree.rate
    # The name of the last cycle may stand beyond the last token.
    width, height = BEFORE + round(seconds * SECOND) + BEHIND, ABOVE + LANE * lanes + BELOW
    label = f"Beams of {tree.name}: {counted(len(tree.cycles), 'cycle')} in {seconds:.1f} s"
    return (
        f'<div class="beams"><div class="beams-plane"><svg width="{width}" height="{height}" role="group" aria-label="{label}">'
        f'{_axis(seconds, height)}{"".join(_fans(tree, lanes))}</svg></div><p class="beams-note" data-part="note" '
        f'aria-hidden="true">{PROMPT}</p>{_legend()}</div>'
    )


def _fans(tree: Tree, lanes: int) -> Iterator[str]:
    """The beams of a cycle start where the chosen one of the cycle before ended."""
    lane, number = (lanes - 1) / 2, 0
    for fan in tree.fans:
        x = BEFORE + fan.start / tree.rate * SECOND
        if len(fan.beams) == 1:
            yield f'<path class="warm-up" d="M{x:.1f} {_y(lane)}h{len(fan.kept.tokens) / tree.rate * SECOND:.1f}"/>'
            continue
        number += 1
        yield f'<text class="cycle" x="{x + 4:.1f}" y="{ABOVE - 10}">cycle {number}</text>'
        yield f'<path class="edge" d="M{x:.1f} {ABOVE - 6}V{ABOVE + LANE * lanes}"/>'
        # The chosen one last, above the others.
        for beam in sorted(fan.beams, key=lambda beam: beam is fan.kept):
            yield _beam(fan, beam, number, tree.rate, lane)
        lane = fan.cycle.chosen


def _beam(fan: Fan, beam: Branch, cycle: int, rate: float, lane: float) -> str:
    def x(token: float) -> str:
        return f"{BEFORE + (fan.start + token) / rate * SECOND:.1f}"

    root, y, count, fate = _y(lane), _y(beam.number), len(beam.tokens), fan.fate(beam)
    turn = min(SPREAD_TOKENS, count)
    curve = f"M{x(0)} {root}C{x(turn / 2)} {root} {x(turn / 2)} {y} {x(turn)} {y}"
    # A beam may end within a stage.
    ends = (*(min(stage, count) for stage in PLAN.stages[: beam.stages - 1]), count)
    stages, begun = [], 0
    for judge, end in zip(JUDGES, ends, strict=False):
        if end > begun or begun == 0:
            path = f"{curve}H{x(max(turn, end))}" if begun == 0 else f"M{x(max(turn, begun))} {y}H{x(max(turn, end))}"
            stages.append(f'<path class="stage" style="--spoof:{1 - beam.scores[judge]:.1%}" d="{path}"/>')
        begun = max(begun, end)
    places = {name: fan.place(beam, name) for name in beam.scores}
    scores = ", ".join(f"{spoken(n)} {1 - beam.scores[n]:.2f} ({at} of {of})" for n, (at, of) in places.items())
    rank = "" if beam.rank is None else f"; sum of ranks {beam.rank:g}"
    span = f"{fan.start / rate:.2f} to {(fan.start + count) / rate:.2f} s"
    label = f"Cycle {cycle}, beam {beam.number + 1}, {span}: {FATES[fate]}; spoof probability {scores}{rank}"
    first = 0 if cycle == 1 and beam.number == 0 else -1
    return (
        f'<g class="beam {fate}" role="img" data-cycle="{cycle}" data-beam="{beam.number + 1}" '
        f'tabindex={first} aria-label="{label}"><path class="hit" d="{curve}H{x(count)}"/>{"".join(stages)}'
        f"{_mark(fate, float(x(count)), float(y))}</g>"
    )


def _mark(fate: str, x: float, y: float) -> str:
    """The sign at the end of a beam: a cross, a bar, a ring; the chosen beam continues."""
    shapes = {
        "first": f"M{x - MARK} {y - MARK}l{2 * MARK} {2 * MARK}m0 {-2 * MARK}l{-2 * MARK} {2 * MARK}",
        "second": f"M{x} {y - MARK - 1}v{2 * MARK + 2}",
        "lost": f"M{x} {y}a{MARK} {MARK} 0 1 0 {2 * MARK} 0a{MARK} {MARK} 0 1 0 {-2 * MARK} 0",
    }
    return f'<path class="mark" d="{shapes[fate]}"/>' if fate in shapes else ""


def _axis(seconds: float, height: int) -> str:
    base = height - BELOW + 2
    ticks = "".join(
        f'<path class="tick" d="M{BEFORE + s * SECOND} {base}v5"/><text x="{BEFORE + s * SECOND}" y="{height - 6}">{s} s</text>'
        for s in range(int(seconds) + 1)
    )
    return f'<path class="tick" d="M{BEFORE} {base}H{BEFORE + seconds * SECOND:.1f}"/>{ticks}'


def _legend() -> str:
    def entry(fate: str) -> str:
        line = f'<path class="stage" style="--spoof:60%" d="M0 7H{26 if fate == "chosen" else 20}"/>{_mark(fate, 20, 7)}'
        return f'<li><svg width="30" height="14" aria-hidden="true"><g class="beam {fate}">{line}</g></svg>{FATES[fate]}</li>'

    ramp = '<li><i class="beams-ramp" aria-hidden="true"></i>spoof probability from 0 to 1, by M10, M25, M50 in turn</li>'
    return f'<ul class="beams-legend" aria-label="Legend of the beams">{"".join(map(entry, FATES))}{ramp}</ul>'


def _y(lane: float) -> str:
    return f"{ABOVE + LANE * (lane + 0.5):g}"
