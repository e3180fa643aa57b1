"""The words and figures of the page as HTML, built from numbers and fixed words; the name of a preset alone is escaped."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from explorers.session import Card, Said
from explorers.shared.ribbon import tail_html
from explorers.shared.terms import term_html
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


def preset_title_html(name: str, settings: Settings) -> str:
    """The name may be a visitor's own."""
    told = f"A preset, spoken by {settings.method.upper()}, at the seed of the others."
    return f'<header class="title"><h2>{escape(name)}<small>preset</small></h2><p>{told}</p></header>'


def card_html(card: Card | None, number: int = 1) -> str:
    """The figures of one of a card's takes, or empty places for them."""
    if card is None:
        return f'<div class="readout empty">{_headline("–", "")}{_figures(["–"] * 4)}</div>'
    said = card.take(number)
    reading = said.reading
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
    headline = _headline(f"{reading.tokens_per_second:.0f}", _speed_up(said))
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


def progress_html(
    key: str,
    methods: Sequence[str],
    kinds: Sequence[str],
    group_sizes: Sequence[int],
    rate: float,
    place: tuple[int, int] | None = None,
) -> str:
    """Where a run over `methods` stands, and the newest tokens; not announced aloud, as it changes several times a second.

    key: the card that is being said. place: of its take among how many, where that is more than its method's among `methods`.
    """
    number, count = place or (methods.index(key) + 1, len(methods))
    of = f" <span>{number} of {count}</span>" if count > 1 else ""
    words = f"{_short(key)}: {len(kinds)} tokens, {len(kinds) / rate:.1f} s{of}"
    return f'<div class="status busy"><p>{words}</p>{tail_html(kinds, group_sizes, TAIL_TOKENS)}</div>'


def done_html(keys: Sequence[str], seconds: float) -> str:
    """keys: the card of every take that was said."""
    count = "Four" if tuple(keys) == METHODS else str(len(keys))
    what = f"{count} takes" if len(keys) > 1 else _short(keys[0])
    return message_html(f"{what} in {seconds:.1f} s.")


def message_html(words: str) -> str:
    """`words` are the page's own, never a user's."""
    return f'<div class="status" role="status"><p>{words}</p></div>'


def _headline(speed: str, speed_up: str) -> str:
    return f'<p class="headline"><span class="speed"><b>{speed}</b> tokens/s</span>{speed_up}</p>'


def _speed_up(said: Said) -> str:
    if said.yardstick == "self" or (said.yardstick == "recorded" and said.reading.method == "ar"):
        return '<span class="speed-up"><small>the yardstick</small></span>'
    ratio = "" if said.speed_up is None else f"<b>{said.speed_up:.2f}×</b> "
    return f'<span class="speed-up">{ratio}<small>{YARDSTICKS[said.yardstick]}</small></span>'


def _figures(values: Sequence[str]) -> str:
    names = (term_html("acceptance"), term_html("length"), term_html("rtf", "real-time factor"), "audio")
    items = (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in zip(names, values, strict=True))
    return f"<dl>{''.join(items)}</dl>"


def _knobs(settings: Settings) -> str:
    told = [f"{name} {getattr(settings, name):g}" for name in (*KNOBS[settings.method], "temperature")]
    told += [f"by {settings.similarity}"] if settings.method == "pcg" and settings.similarity != Settings.similarity else []
    told += ["block verification"] if settings.verification == "block" else []
    told += ["adaptive"] if settings.adaptive and settings.method != "ar" else []
    return " · ".join([*told, f"seed {settings.seed:d}"])


def _short(key: str) -> str:
    return TITLES[key][0] if key in TITLES else key.capitalize()


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
