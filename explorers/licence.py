"""Under which licence the page's sounds are, and what it says at its top when another voice than the wanted one speaks.

Knows nothing of gradio.
"""

from html import escape

from pcg.synthesis.voice import Voice

TERMS = {
    "CC-BY-NC-4.0": "CC BY-NC 4.0: non-commercial use only; sounds made with it carry this licence",
    "LicenseRef-NeuTTS-Open-1.0": "NeuTTS Open License 1.0: commercial use only below its threshold",
}
"""What a licence asks of listeners, by its SPDX identifier; of others the identifier says enough."""


def voice_line(voice: Voice) -> str:
    """Who speaks and under which licence, as one line of text."""
    terms = TERMS.get(voice.licence)
    return f"Voice: {voice.name}, {terms}" if terms else f"Voice: {voice.name} ({voice.licence})"


def masthead_html(title: str, subtitle: str, voice: Voice) -> str:
    """The head of the page: its title, what it is, and the voice's licence, quietly."""
    lines = f'<p>{escape(subtitle)}</p><p class="masthead-voice">{escape(voice_line(voice))}</p>'
    return f'<div class="masthead"><h1>{escape(title)}</h1>{lines}</div>'


def banner_html(*sentences: str) -> str:
    """What a visitor has to know before all else: one paragraph a sentence, nothing without any."""
    told = "".join(f"<p>{escape(sentence, quote=False)}</p>" for sentence in sentences if sentence)
    return f'<div class="banner" role="status">{told}</div>' if told else ""
