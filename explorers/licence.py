"""The licence of the page's sounds, and the banner when another voice than the requested one is loaded.

Knows nothing of gradio.
"""

from html import escape

from pcg.synthesis.voice import Voice

TERMS = {
    "CC-BY-NC-4.0": "CC BY-NC 4.0: non-commercial use only; sounds made with it carry this licence",
    "LicenseRef-NeuTTS-Open-1.0": "NeuTTS Open License 1.0: commercial use only below its threshold",
}
"""The terms of a licence, by its SPDX identifier; for others the identifier is shown."""

LINKS = {
    "PCG paper": "https://arxiv.org/abs/2511.13732",
    "SSD paper": "https://arxiv.org/abs/2505.15380",
    "SD paper": "https://arxiv.org/abs/2211.17192",
}


def voice_line(voice: Voice) -> str:
    """The voice and its licence, as one line of text."""
    terms = TERMS.get(voice.licence)
    return f"Voice: {voice.name}, {terms}" if terms else f"Voice: {voice.name} ({voice.licence})"


def masthead_html(title: str, voice: Voice) -> str:
    """The head of the page: what it shows, links to papers and code, voice and licence."""
    links = " · ".join(f'<a href="{address}" target="_blank" rel="noopener">{name}</a>' for name, address in LINKS.items())
    return (
        f'<div class="masthead"><a class="skip" href="#play">Skip to the player</a><h1>{escape(title)}</h1>'
        "<p><b>Principled coarse-graining</b> (PCG): speech comes faster when a model accepts <i>sound-alikes</i>.</p>"
        f'<p>{links}</p><p class="masthead-voice">{escape(voice_line(voice))}</p></div>'
    )


def banner_html(*sentences: str) -> str:
    """Important notices, one paragraph each; empty without any."""
    paragraphs = "".join(f"<p>{escape(sentence, quote=False)}</p>" for sentence in sentences if sentence)
    return f'<div class="banner" role="status">{paragraphs}</div>' if paragraphs else ""
