"""Words: the card of Recognise that shows what the judge hears, in listed words."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import gradio as gr
import numpy as np

from explorers.compare.layout import DECODING
from explorers.errors import telling
from explorers.recognise.actions import read_sound
from explorers.recognise.candidates import PROMPT, wording_html
from explorers.recognise.transcript import message_html
from explorers.recognise.word_list_actions import hear_in_words
from pcg.recognition.lexicon import Lexicon, load_lexicon
from pcg.recognition.recogniser import ScoringRecogniser

HEADING = """<header class="title"><h2>In listed words<small>how the judge hears</small></h2>
<p>Eighty thousand words and their bigrams: the CTC head's characters are searched for texts of these words, the language model
reads the likeliest of them, and its own, and the best sum is the text. Slower, and with far fewer errors.</p></header>"""


def create_words(ready: Callable[[], ScoringRecogniser], sound: gr.Audio, reference: gr.Textbox) -> None:
    """Lay the card out within the Blocks that is being built; it hears `sound`."""
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        run = gr.Button("Transcribe in listed words", elem_id="words-run", size="md")
        page = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="words-transcript")
        with gr.Accordion("As JSON", open=False):
            record = gr.JSON(show_label=False, elem_id="words-record", max_height=320)
    run.click(
        _transcriber(ready), [sound, reference], [record, page],
        show_progress="hidden", concurrency_id=DECODING, concurrency_limit=1, trigger_mode="always_last",
        api_name="transcribe_in_listed_words",
        api_description="Transcribe a sound in the words of a list, as the judge does: a record with text, candidates and "
        "their scores and, with a reference, WER; then the same as HTML.",
    )  # fmt: skip


def _transcriber(ready: Callable[[], ScoringRecogniser]) -> Callable[[str | None, str | None], list[object]]:
    warm = lru_cache(maxsize=1)(partial(_warmed, ready))

    def transcribe_in_listed_words(sound: str | None, reference: str | None) -> list[object]:
        with telling():
            if sound is None:
                return [None, message_html(PROMPT)]
            recogniser, lexicon = warm()
            samples = read_sound(Path(sound), recogniser.sample_rate)
            heard = hear_in_words(recogniser, lexicon, samples, recogniser.sample_rate, reference or "")
        return [heard.record(), wording_html(heard)]

    return transcribe_in_listed_words


def _warmed(ready: Callable[[], ScoringRecogniser]) -> tuple[ScoringRecogniser, Lexicon]:
    """Load, and hear a second of noise: the first call of a process is slow, and would belie the RTFx."""
    recogniser, lexicon = ready(), load_lexicon()
    noise = np.random.default_rng(0).normal(0.0, 0.1, recogniser.sample_rate).astype(np.float32)
    hear_in_words(recogniser, lexicon, noise, recogniser.sample_rate)
    return recogniser, lexicon
