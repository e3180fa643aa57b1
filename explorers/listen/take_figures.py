"""Below a take: its mel spectrogram, its verdict, and the means over the takes of its card, as HTML.

The words of a recogniser are escaped; all else is numbers and fixed words.
"""

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from explorers.judging import JudgedTake, Verdicts
from explorers.session import Card, Session
from explorers.shared.terms import term_html
from pcg.analysis.audition import FRAME_SECONDS, band_frequencies
from pcg.analysis.swap import log_mel_db
from pcg.errors import counted
from pcg.metrics.intelligibility import Errors

QUIETEST_DB, LOUDEST_DB = -75.0, -5.0
KILOHERTZ = (0.5, 1, 2, 4, 8)
MOST_SECONDS_MARKED, LAST_MARK = 8, 0.96
WEBP_QUALITY = 80
WIDEST = 16_000
"""Frames of a picture: WebP knows none that is wider than 16,383."""
NOT_JUDGED = "Not judged yet."
SILENT = "No sound to judge."
DIRECTIONS = {
    "WER": ("wer", "less is better"),
    "CER": ("cer", "less is better"),
    "speaker": ("similarity", "cosine to the voice's reference; more is better"),
    "DNSMOS": ("dnsmos", "1 to 5; more is better"),
}


def mel_html(sound: Path | None, longest: float) -> str:
    """The log-mel picture of a sound, on the scale of a card whose pictures are all `longest` seconds wide."""
    if sound is None or not sound.is_file():
        return ""
    picture, seconds, rate = _picture(sound)
    if not seconds:
        return ""
    whole = max(longest, seconds)
    label = f"Log-mel spectrogram, {seconds:.1f} s, 0 to {rate / 2000:g} kHz, {QUIETEST_DB:g} to {LOUDEST_DB:g} dB"
    return (
        f'<figure class="mel"><div class="mel-plane" role="img" aria-label="{label}" title="{label}">'
        f'<img alt="" style="--share:{seconds / whole:.2%}" src="data:image/webp;base64,{picture}">'
        f"{_frequencies(rate)}</div>{_seconds(whole)}</figure>"
    )


def judged_html(card: Card, number: int, verdicts: Verdicts) -> str:
    """The verdict on the take `number` of the card, the means over its takes, and the names of the judges."""
    verdict, count = verdicts.of(card.take(number)), len(card.takes)
    means = _means(card, [v for v in map(verdicts.of, card.takes) if v]) if count > 1 else ""
    if verdict is None:
        return f'<div class="judged"><p>{NOT_JUDGED if card.take(number).sound else SILENT}</p>{means}</div>'
    names = "".join(f"<li>{figure}: {escape(who)}</li>" for figure, who in verdicts.judges.items())
    by = f"<details><summary>n = 1; the judges</summary><ul>{names}</ul></details>"
    return f'<div class="judged">{_judged([verdict])}{_heard(verdict)}{by}{means}</div>'


def longest_of(session: Session) -> float:
    """Seconds of the longest take on the page."""
    return max((shown.reading.audio_seconds for card in session.cards.values() for shown in card.takes), default=0.0)


@lru_cache(maxsize=64)
def _picture(sound: Path) -> tuple[str, float, int]:
    """The picture as base64, dark where it is loud, and the seconds and sample rate of the sound. A path is one sound."""
    import soundfile

    samples, rate = soundfile.read(sound, dtype="float32")
    mel = log_mel_db(samples, rate)
    every = -(-len(mel) // WIDEST) or 1
    loudness = np.clip((mel[::every] - QUIETEST_DB) / (LOUDEST_DB - QUIETEST_DB), 0, 1)
    written = BytesIO()
    if len(mel):
        Image.fromarray((255 * (1 - loudness)).astype(np.uint8).T[::-1]).save(written, "WEBP", quality=WEBP_QUALITY)
    return b64encode(written.getvalue()).decode(), len(mel) * FRAME_SECONDS, rate


def _frequencies(rate: int) -> str:
    bands = band_frequencies(rate)
    shown = [k for k in KILOHERTZ if 1000 * k < bands[-1]]
    heights = np.interp([1000 * k for k in shown], bands, np.arange(len(bands))) / len(bands)
    marks = (f'<span style="--at:{height:.1%}">{k:g}</span>' for k, height in zip(shown, heights, strict=True))
    return f'<div class="mel-hz" aria-hidden="true">{"".join(marks)}<b>kHz</b></div>'


def _seconds(whole: float) -> str:
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if whole / s <= MOST_SECONDS_MARKED)
    places = np.arange(0, whole, step)
    # A number at the very end would stand beside the picture.
    shown = [at for at in places if at / whole < LAST_MARK]
    marks = "".join(f'<span style="--at:{at / whole:.2%}">{at:g}{" s" if not at else ""}</span>' for at in shown)
    return f'<div class="mel-time" aria-hidden="true">{marks}</div>'


def _judged(verdicts: Sequence[JudgedTake]) -> str:
    """Error rates are pooled: all errors over all words."""
    alike = [v.similarity for v in verdicts if v.similarity is not None]
    values = {
        "WER": f"{_pooled([v.words for v in verdicts]):.1%}",
        "CER": f"{_pooled([v.characters for v in verdicts]):.1%}",
        "speaker": f"{sum(alike) / len(alike):.3f}" if alike else "–",
        "DNSMOS": f"{sum(v.dnsmos for v in verdicts) / len(verdicts):.2f}",
    }
    items = (
        f'<div title="{DIRECTIONS[name][1]}"><dt>{term_html(DIRECTIONS[name][0], name)}</dt><dd>{value}</dd></div>'
        for name, value in values.items()
    )
    return f"<dl>{''.join(items)}</dl>"


def _heard(verdict: JudgedTake) -> str:
    return f'<p class="heard">Recognised: {f"<q>{escape(verdict.heard)}</q>" if verdict.heard else "nothing"}</p>'


def _means(card: Card, verdicts: Sequence[JudgedTake]) -> str:
    rate, tested, speed_up = (card.mean(name) for name in ("acceptance_rate", "acceptance_of_tested", "speed_up"))
    parts = [f"{card.mean('tokens_per_second'):.0f} tokens/s"]
    earlier = " of an earlier run" if card.first.baseline == "last run" else ""
    parts += [f"{speed_up:.2f}× AR{earlier}"] if speed_up is not None and card.first.baseline != "self" else []
    parts += [f"{rate:.0%} of drafted and {tested:.0%} of tested tokens accepted"] if None not in (rate, tested) else []
    measured = f'<p class="mean"><b>Mean of n = {counted(len(card.takes), "take")}:</b> {", ".join(parts)}</p>'
    if not verdicts:
        return measured
    pooled = f'<p class="mean"><b>Judged, over n = {counted(len(verdicts), "take")}</b> (error rates pooled)</p>'
    return measured + pooled + _judged(verdicts)


def _pooled(errors: Sequence[Errors]) -> float:
    return sum(e.errors for e in errors) / sum(e.length for e in errors)
