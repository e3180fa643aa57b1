"""The result of a listening test as HTML: the votes, the systems behind the letters, and the measured figures."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from explorers.colours import swatch_html
from explorers.listening.actions import BlindTest
from explorers.shared.terms import titled_html
from pcg.errors import counted
from pcg.experiments.listening_tests import BEST, OPEN, TIE, Figure, Outcome
from pcg.metrics.estimate import Estimate

STYLES = Path(__file__).with_name("reveal.css")
JUDGING = "Judging; the figures follow."
# A bootstrap of a few numbers is overconfident. Wilson's interval is not.
TOO_SMALL = "n too small"


def reveal_html(blind_test: BlindTest) -> str:
    """The result of a test that is over; without the judges' figures until they are known."""
    result = blind_test.outcome
    verdict, *notes = result.sentences
    said = f'<p class="reveal-verdict" role="status">{escape(verdict)}</p><p>{escape(" ".join(notes))}</p>'
    parts = [said, _votes(result), "<h3>Systems behind the letters</h3>", _trials(blind_test), "<h3>Differing settings</h3>"]
    parts += [_differences(blind_test), "<h3>Measurements</h3>", _measured(blind_test), _cut(blind_test)]
    return f'<div class="reveal">{"".join(parts)}</div>'


def _cut(blind_test: BlindTest) -> str:
    cut = sum(take.hit_limit for takes in blind_test.takes for take in takes.values())
    return f"<p>{counted(cut, 'take')} ran to the length limit, before the end of the text.</p>" if cut else ""


def _votes(result: Outcome) -> str:
    if not result.n:
        return ""
    rows = [[_head(f.name), _estimate(f, result), _range(f, result)] for f in result.figures]
    what = "mean" if result.kind == "rating" else "share"
    return _table(("", f"{what}, 95 % interval", "dashed: chance, or no difference"), rows)


def _estimate(figure: Figure, result: Outcome) -> str:
    if figure.estimate is None:
        return _figure("–")
    if result.kind == "rating":
        if result.too_small:
            return _figure(f"{figure.estimate.value:.1f}", TOO_SMALL)
        return _figure(_interval(figure.estimate, "{:.1f}"), f"n = {figure.n}")
    return _figure(_interval(figure.estimate, "{:.0%}"), f"{figure.count} of {figure.n}")


def _range(figure: Figure, result: Outcome) -> str:
    """The interval as a bar: shares from 0 to 1, ratings from 0 to 100, differences of ratings from -100 to 100."""
    if figure.estimate is None or (result.kind == "rating" and result.too_small):
        return "<td></td>"
    low, high = (0, 1) if result.kind != "rating" else (0, BEST)
    if result.kind == "rating" and " less " in figure.name:
        low = -BEST
    at = [100 * (value - low) / (high - low) for value in (figure.estimate.value, figure.estimate.low, figure.estimate.high)]
    chance = "-100%" if result.kind == "rating" and low == 0 else "50%"
    bar = f'<i style="left:{at[1]:.1f}%;width:{at[2] - at[1]:.1f}%"></i><b style="left:{at[0]:.1f}%"></b>'
    return f'<td aria-hidden="true"><div class="reveal-range" style="--chance:{chance}">{bar}</div></td>'


def _trials(blind_test: BlindTest) -> str:
    rows = []
    for i, (trial, vote) in enumerate(zip(blind_test.plan.trials, blind_test.votes, strict=False)):
        letters = blind_test.plan.design.letters
        named = [(letter, system) for letter, system in zip(letters, trial.systems, strict=True) if letter != OPEN]
        behind = " | ".join(f"{letter}: {swatch_html(system)}{escape(system)}" for letter, system in named)
        if isinstance(vote.answer, tuple):
            answer = " · ".join(f"{score:g}" for score in vote.answer)
        else:
            answer = "no difference" if vote.answer == TIE else str(vote.answer)
        plays = ", ".join(f"{letter} {count}×" for letter, count in zip(letters, vote.plays, strict=True))
        cells = [f"<td>{behind}</td>", _cell(answer), _cell(plays), _cell(blind_test.texts[trial.item])]
        rows.append([_head(str(i + 1)), *cells])
    return _table(("trial", "systems", "your vote", "played", "text"), rows) if rows else "<p>No vote was given.</p>"


def _differences(blind_test: BlindTest) -> str:
    names = list(blind_test.systems)
    rows = [[_head(knob), *(_cell(_knob(row[name])) for name in names)] for knob, row in blind_test.differences().items()]
    return _table(("", *names), rows)


def _knob(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    return str(value)


def _measured(blind_test: BlindTest) -> str:
    rows = []
    for name in blind_test.systems:
        speeds, judged = blind_test.speeds(name), blind_test.judged.get(name)
        cells = [_number(speeds["tokens_per_second"], "{:.0f}"), _number(speeds["speed_up"], "{:.2f}×")]
        cells.append(_number(speeds["rtf"], "{:.2f}"))
        forms = {"wer": "{:.1%}", "cer": "{:.1%}", "similarity": "{:.3f}", "dnsmos": "{:.2f}"}
        for key, form in forms.items():
            found = getattr(judged, key) if judged else None
            interval = _ends(found, form) if found and judged.n >= blind_test.outcome.fewest else TOO_SMALL
            cells.append(_figure(form.format(found.value), interval) if found else _figure("–"))
        rows.append([_head(name), *cells])
    heads = ("", "tokens/s", "over AR", "RTF", "WER", "CER", "similarity", "DNSMOS, 1 to 5")
    n = len(blind_test.plan.trials)
    lines = [f"{counted(n, 'take')} each; in small print: 95 % intervals. Speeds were measured while this test was prepared."]
    lines += [f"{figure}: {who}." for figure, who in blind_test.judges.items()]
    notes = "<br>".join(map(escape, lines if len(blind_test.judged) == len(blind_test.systems) else [lines[0], JUDGING]))
    return f'{_table(heads, rows)}<p class="reveal-judges">{notes}</p>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{swatch_html(text)}{titled_html(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    # What scrolls must be reached by the keyboard, too.
    return f'<div class="reveal-scroll" role="group" aria-label="Table" tabindex="0">{table}</div>'


def _head(text: str) -> str:
    return f'<th scope="row">{swatch_html(text)}{escape(text)}</th>'


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _figure(text: str, small: str = "") -> str:
    return f'<td class="figure">{text}{f"<small>{small}</small>" if small else ""}</td>'


def _number(value: float | None, form: str) -> str:
    return _figure("–" if value is None else form.format(value))


def _interval(estimate: Estimate, form: str) -> str:
    return f"{form.format(estimate.value)} ({_ends(estimate, form)})"


def _ends(estimate: Estimate, form: str) -> str:
    return f"{form.format(estimate.low)} to {form.format(estimate.high)}"
