"""Words of the page as HTML: its head, messages, tables, the names of the methods, and the form of percentages."""

import os
from collections.abc import Sequence
from html import escape

from pcg.synthesis.voice import Voice

LICENCES = {
    "CC-BY-NC-4.0": "CC BY-NC 4.0: non-commercial use only; sounds made with it carry this licence",
    "LicenseRef-NeuTTS-Open-1.0": "NeuTTS Open License 1.0: commercial use only below its threshold",
}
"""The terms of a licence, by its SPDX identifier; for others the identifier is shown."""

LINKS = {
    "PCG paper": "https://arxiv.org/abs/2511.13732",
    "SSD paper": "https://arxiv.org/abs/2505.15380",
    "SD paper": "https://arxiv.org/abs/2211.17192",
}


def message_html(words: str, busy: bool = False) -> str:
    """Return a message of the page, without a visitor's words. busy: progress, which is not read aloud."""
    return f'<div class="status{" busy" if busy else ""}"{"" if busy else " role=status"}><p>{words}</p></div>'


def voice_line(voice: Voice) -> str:
    """Return the voice and its licence, as one line of text."""
    terms = LICENCES.get(voice.licence)
    return f"Voice: {voice.name}, {terms}" if terms else f"Voice: {voice.name} ({voice.licence})"


def masthead_html(title: str, voice: Voice) -> str:
    """Return the head of the page: what it shows, links to the papers and, on a Space, to the code, voice and licence."""
    space = os.environ.get("SPACE_ID")
    places = LINKS | ({"code": f"https://huggingface.co/spaces/{space}/tree/main"} if space else {})
    links = " · ".join(
        f'<a href="{escape(address)}" target="_blank" rel="noopener">{name}</a>' for name, address in places.items()
    )
    return (
        f'<div class="masthead"><a class="skip" href="#play">Skip to the player</a><h1>{escape(title)}</h1>'
        "<p><b>Principled coarse-graining</b> (PCG): speech comes faster when a model accepts <i>sound-alikes</i>.</p>"
        f'<p>{links}</p><p class="masthead-voice">{escape(voice_line(voice))}</p></div>'
    )


ROUND_HTML = (
    "<p><b>One round</b>: a small model drafts tokens, the large one tests them. "
    '<button type="button">See a sound-alike pass, step by step</button></p>'
)


def banner_html(sentence: str) -> str:
    """Return an important notice."""
    return f'<div class="banner" role="status"><p>{escape(sentence, quote=False)}</p></div>'


def percent(share: float) -> str:
    """Return the one form of percentages on the page."""
    return f"{100 * share:.1f} %".replace(".0 %", " %")


def table_html(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column names the rows; all words are escaped, and a cell ends in its interval in brackets."""
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in heads)
    body = ""
    for first, *cells in rows:
        body += f"<tr><th scope='row'>{escape(first)}</th>"
        for cell in cells:
            value, bracket, interval = cell.partition(" [")
            low, _, high = interval.rstrip("]").partition(", ")
            # The interval of one utterance, or of a row over itself, has no width and says nothing.
            ends = f"<small>[{escape(interval)}</small>" if bracket and low != high else ""
            body += f"<td{' class=text' if len(value) > 24 else ''}>{escape(value)}{ends}</td>"
        body += "</tr>"
    # What scrolls must be reached by the keyboard, too.
    return (
        f"<div class='results-wide' role='group' aria-label='{escape(title)}' tabindex='0'><table class='lab-table'>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
