"""The figures below a tuned take as HTML, built from numbers and fixed words alone."""

from collections.abc import Sequence
from pathlib import Path

from explorers.shared.terms import term_html, titled_html
from explorers.tune.measured import Bench, Measured, RoundCost
from pcg.analysis.whatif import Choice, PathEstimate, WhatIf
from pcg.errors import counted

STYLES = Path(__file__).with_name("figures.css")
PARTS = {"draft": "drafting", "verify": "verification by the target", "rule": "acceptance rule"}
NO_AR = "AR is not measured yet for this text, voice, sampling and seed: press “Generate”."


def figures_html(bench: Bench) -> str:
    """Speed against AR and the bound, acceptance by position, and where the time of each round went."""
    if bench.last is None:
        return '<p class="tune-empty">Speed, acceptance and timing of the take appear here.</p>'
    idle = f'<p class="tune-idle" role="status">{bench.idle}</p>' if bench.idle else ""
    return f'<div class="tune-figures">{_headline(bench)}{idle}{_positions(bench.last)}{_timeline(bench.last)}</div>'


def what_if_html(bench: Bench) -> str:
    """What the take would have accepted with another theta, beta or lookahead."""
    if bench.last is None:
        return '<p class="tune-empty">Estimates for other values of theta, beta and lookahead appear here.</p>'
    if bench.estimate is None:
        return '<p class="tune-empty">No estimate for this take.</p>'
    settings, estimate = bench.last.settings, bench.estimate
    chosen = {"pcg": settings.theta, "ssd": settings.beta}
    rows = [
        _row("PCG, theta", estimate.theta, chosen["pcg"] if settings.method == "pcg" else None),
        _row("SSD, beta", estimate.beta, chosen["ssd"] if settings.method == "ssd" else None),
        _row(f"{settings.method.upper()}, lookahead", estimate.lookahead, settings.lookahead) if estimate.lookahead else "",
    ]
    return f'<div class="tune-what-if">{_caption(bench, estimate)}{"".join(rows)}</div>'


def _caption(bench: Bench, estimate: WhatIf) -> str:
    check = ""
    if estimate.own and estimate.own.acceptance_rate is not None and bench.last.reading.acceptance_rate is not None:
        check = (
            f" At this take's own settings the estimate is {estimate.own.acceptance_rate:.0%}, "
            f"and {bench.last.reading.acceptance_rate:.0%} was measured."
        )
    return (
        '<p class="tune-note"><b>Estimated</b>, not decoded: both models score this take again, which gives the probability '
        "of acceptance at each token. The estimate cannot know the tokens after a different decision." + check + "</p>"
    )


def _row(name: str, choices: Sequence[Choice], chosen: float | None) -> str:
    cells = "".join(_cell(choice.value, choice.estimate, choice.value == chosen) for choice in choices)
    return (
        f'<div class="tune-scroll" role="region" tabindex="0" aria-label="{name}: estimates"><table><caption>{name}</caption>'
        f'<tbody><tr><th scope="row">value</th>{"".join(_value(c.value, c.value == chosen) for c in choices)}</tr>'
        f'<tr class="bars"><th scope="row">accepted of drafted</th>{cells}</tr>'
        f'<tr><th scope="row">tokens per target call</th>'
        f"{''.join(f'<td>{c.estimate.mean_acceptance_length:.2f}</td>' for c in choices)}</tr></tbody></table></div>"
    )


def _value(value: float, chosen: bool) -> str:
    return f'<th scope="col"{" aria-current=true" if chosen else ""}>{value:g}</th>'


def _cell(value: float, estimate: PathEstimate, chosen: bool) -> str:
    rate = estimate.acceptance_rate
    if rate is None:
        return "<td>–</td>"
    mark = ' class="chosen"' if chosen else ""
    return f'<td{mark}><i style="--share:{rate:.1%}"></i>{rate:.0%}</td>'


def _headline(bench: Bench) -> str:
    reading, speed_up, bound = bench.last.reading, bench.speed_up, bench.bound
    values = {
        "tokens/s": f"{reading.tokens_per_second:.0f}",
        "speed-up": "–" if speed_up is None else f"{speed_up:.2f}×",
        "bound": "–" if bound is None else f"{bound:.2f}×",
        "RTF": "–" if reading.rtf is None else f"{reading.rtf:.2f}",
        "accepted of drafted": "–" if reading.acceptance_rate is None else f"{reading.acceptance_rate:.0%}",
        "accepted of tested": "–" if reading.acceptance_of_tested is None else f"{reading.acceptance_of_tested:.0%}",
        "tokens per target call": f"{reading.mean_acceptance_length:.2f}",
    }
    items = (f"<div><dt>{titled_html(name)}</dt><dd>{value}</dd></div>" for name, value in values.items())
    return f'<dl class="tune-headline">{"".join(items)}</dl><p class="tune-note">{_compared(bench)}.</p>'


def _compared(bench: Bench) -> str:
    if bench.last.settings.method == "ar":
        return "This is the baseline for other takes of this text"
    if bench.baseline is None:
        return NO_AR[:-1]
    against = bench.baseline.reading
    run = " of an earlier run," if bench.earlier else ""
    text = f"AR{run} with the same text, voice, sampling and seed: {against.tokens_per_second:.0f} tokens/s"
    if bench.bound is None and not bench.last.settings.varies:
        text += ". Press “Measure the bound” to see the highest possible speed-up"
    if bench.last.settings.varies:
        text += "; no bound where the lookahead varies, as rounds differ in cost"
    return text


def _positions(measured: Measured) -> str:
    shares = measured.reading.acceptance_by_position
    if not shares:
        return ""
    bars = "".join(
        f'<li title="position {i}: accepted in {rate:.1%} of rounds; in {given:.1%} of the rounds that tested it">'
        f'<i style="--share:{rate:.1%}"></i><b>{rate:.0%}</b><span>{i}</span></li>'
        for i, (rate, given) in enumerate(zip(shares, measured.conditional_by_position, strict=True), 1)
    )
    label = "Share of rounds in which each position was accepted: "
    label += ", ".join(f"{i}: {rate:.0%}" for i, rate in enumerate(shares, 1))
    return (
        "<section><h3>Accepted by position <small>share of rounds, by place of the drafted token</small></h3>"
        f'<ol class="tune-positions" aria-label="{label}">{bars}</ol></section>'
    )


def _timeline(measured: Measured) -> str:
    """A column a round, its parts stacked on one scale; the codec's share is known for the take only."""
    rounds, count = measured.rounds, max(1, len(measured.rounds))
    highest = max((r.draft_ms + r.verify_ms + r.rule_ms for r in rounds), default=1.0) or 1.0
    means = {part: sum(getattr(r, f"{part}_ms") for r in rounds) / count for part in PARTS}
    means |= {"codec": measured.codec_ms / count}
    text = "".join(
        f'<li class="{part}" title="{PARTS.get(part, "tokens into sound, spread over the rounds")}">{part} '
        f"<b>{ms:.2f} ms</b></li>"
        for part, ms in means.items()
    )
    columns = "".join(_column(i, each, highest) for i, each in enumerate(rounds, 1))
    over = counted(len(rounds), "round")
    label = f"Milliseconds of each of {over}, up to {highest:.1f} ms"
    return (
        f"<section><h3>Time of a {term_html('round')} <small>mean of {over}; the prompt took {measured.prefill_ms:.0f} ms once"
        f'</small></h3><ul class="tune-parts">{text}</ul>'
        f'<div class="tune-timeline" role="img" aria-label="{label}">'
        f"{columns}</div></section>"
    )


def _column(number: int, cost: RoundCost, highest: float) -> str:
    shares = {part: getattr(cost, f"{part}_ms") for part in PARTS}
    text = ", ".join(f"{part} {ms:.2f}" for part, ms in shares.items())
    title = f"round {number}: {text} ms; {cost.accepted} of {cost.drafted} accepted"
    stacked = "".join(f'<i class="{part}" style="--share:{ms / highest:.1%}"></i>' for part, ms in shares.items())
    return f'<span title="{title}">{stacked}</span>'
