"""Messages of the page as HTML, and the names of the methods."""

from html import escape
from pathlib import Path

from explorers.errors import plain
from pcg.errors import PCGError

STYLES = Path(__file__).with_name("readout.css")
TITLES = {
    "ar": ("AR", "autoregressive"),
    "sd": ("SD", "speculative decoding"),
    "ssd": ("SSD", "speech speculative decoding"),
    "pcg": ("PCG", "principled coarse-graining"),
}
KNOBS = {"ar": (), "sd": ("lookahead",), "ssd": ("beta", "lookahead"), "pcg": ("theta", "lookahead")}


def busy_html(words: str, below: str = "") -> str:
    """Progress: `words` of the page above `below`. Not announced to screen readers, as it changes often."""
    return f'<div class="status busy"><p>{words}</p>{below}</div>'


def failure_html(error: PCGError) -> str:
    """Why a request failed; a toast may be gone before it is read."""
    return message_html(escape(plain(error), quote=False))


def message_html(words: str) -> str:
    """A message of the page; `words` hold no text of a visitor."""
    return f'<div class="status" role="status"><p>{words}</p></div>'
