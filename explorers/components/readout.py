"""The words and figures of the page as HTML, built from numbers and fixed words alone."""

from collections.abc import Sequence
from pathlib import Path

from explorers.components.ribbon import tail_html
from explorers.reading import Card
from pcg.groups.groups import GroupStatistics
from pcg.settings import METHODS, Settings

STYLES = Path(__file__).with_name("readout.css")
TAIL_TOKENS = 44
TITLES = {
    "ar": ("AR", "autoregressive"),
    "sd": ("SD", "speculative decoding"),
    "ssd": ("SSD", "speech speculative decoding"),
    "pcg": ("PCG", "principled coarse-grained acceptance"),
}
EXPLANATIONS = {
    "ar": "The large model alone, one call for every token: the yardstick.",
    "sd": "A small model guesses ahead, the large one checks. Every token keeps exactly the odds it has in AR.",
    "ssd": "As SD, but each check is more lenient by beta. More guesses pass; the odds are no longer those of AR.",
    "pcg": "Checks groups of like-sounding tokens. A group keeps the odds it has in AR; the small model picks within it.",
}
YARDSTICKS = {
    "same run": "AR, measured in this same run",
    "last run": "AR, measured in the last full run",
    "recorded": "AR, as recorded with this example",
    "none": "no AR speed measured on this page yet: say it four ways",
}
KNOBS = {"ar": (), "sd": ("lookahead",), "ssd": ("beta", "lookahead"), "pcg": ("theta", "lookahead")}


def title_html(method: str) -> str:
    short, long = TITLES[method]
    return f'<header class="title"><h2>{short}<small>{long}</small></h2><p>{EXPLANATIONS[method]}</p></header>'


def card_html(card: Card | None) -> str:
    """The figures of a take, or empty places for them."""
    if card is None:
        return f'<div class="readout empty">{_headline("–", "")}{_figures(["–"] * 4)}</div>'
    reading = card.reading
    figures = [
        _or_dash(reading.acceptance_rate, ".0%"),
        f"{reading.mean_acceptance_length:.2f}",
        _or_dash(reading.rtf, ".2f"),
        f"{reading.audio_seconds:.1f} s",
    ]
    notes = [_knobs(reading.settings)]
    if reading.hit_limit:
        notes.append("cut at the length limit")
    if card.outdated:
        notes.append("from an earlier request")
    outdated = " outdated" if card.outdated else ""
    headline = _headline(f"{reading.tokens_per_second:.0f}", _speed_up(card))
    return f'<div class="readout{outdated}">{headline}{_figures(figures)}<p class="notes">{" · ".join(notes)}</p></div>'


def groups_html(theta: float, figures: GroupStatistics) -> str:
    """What theta means for this voice, in numbers."""
    weighted = figures.usage_weighted_mean_size
    by_use = "" if weighted is None else f" ({weighted:.1f} weighted by use)"
    return (
        f'<p class="groups" role="status">At theta {theta:.2f}: <b>{figures.groups:,}</b> groups of on average '
        f"<b>{figures.mean_size:.1f}</b> tokens{by_use}, the largest of {figures.max_size:,}; "
        f"{1 - figures.multi_member_share:.0%} of the {figures.vocab:,} tokens stand alone.</p>"
    )


def progress_html(method: str, methods: Sequence[str], kinds: Sequence[str], group_sizes: Sequence[int], rate: float) -> str:
    """Where a run stands, and the newest tokens; not announced aloud, as it changes several times a second."""
    short, _ = TITLES[method]
    place = f" <span>{methods.index(method) + 1} of {len(methods)}</span>" if len(methods) > 1 else ""
    words = f"{short}: {len(kinds)} tokens, {len(kinds) / rate:.1f} s{place}"
    return f'<div class="status busy"><p>{words}</p>{tail_html(kinds, group_sizes, TAIL_TOKENS)}</div>'


def done_html(methods: Sequence[str], seconds: float) -> str:
    what = "Four takes" if tuple(methods) == METHODS else " and ".join(TITLES[m][0] for m in methods)
    return message_html(f"{what} in {seconds:.1f} s.")


def message_html(words: str) -> str:
    """`words` are the page's own, never a user's."""
    return f'<div class="status" role="status"><p>{words}</p></div>'


def _headline(speed: str, speed_up: str) -> str:
    return f'<p class="headline"><span class="speed"><b>{speed}</b> tokens/s</span>{speed_up}</p>'


def _speed_up(card: Card) -> str:
    if card.reading.method == "ar":
        return '<span class="speed-up"><small>the yardstick</small></span>'
    ratio = "" if card.speed_up is None else f"<b>{card.speed_up:.2f}×</b> "
    return f'<span class="speed-up">{ratio}<small>{YARDSTICKS[card.yardstick]}</small></span>'


def _figures(values: Sequence[str]) -> str:
    names = (
        ("acceptance rate", "accepted tokens of all drafted ones"),
        ("mean acceptance length", "tokens that one call of the large model brings"),
        ("real-time factor", "seconds of work for one second of sound, all included"),
        ("audio", "length of the take"),
    )
    items = (
        f'<div title="{meaning}"><dt>{name}</dt><dd>{value}</dd></div>'
        for (name, meaning), value in zip(names, values, strict=True)
    )
    return f"<dl>{''.join(items)}</dl>"


def _knobs(settings: Settings) -> str:
    names = (*KNOBS[settings.method], "temperature", "seed")
    return " · ".join(f"{name} {getattr(settings, name):g}" if name != "seed" else f"seed {settings.seed:d}" for name in names)


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
