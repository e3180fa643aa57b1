"""The card of Recognise with the transcript in words of a list, as the judge of words makes it."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import gradio as gr
import numpy as np

from explorers.errors import showing_errors
from explorers.recognise.actions import NO_SOUND, read_sound
from explorers.recognise.candidates import PROMPT, wording_html
from explorers.recognise.word_list_actions import hear_in_words
from explorers.shared.blocks import DECODING, json_drawer, queued_beside
from explorers.shared.readout import message_html
from pcg.asr.lexicon import Lexicon, load_lexicon
from pcg.asr.recogniser import ScoringRecogniser
from pcg.errors import PCGError

HEADING = """<header class="title"><h2>In listed words<small>as used by the judge</small></h2>
<p>A list of eighty thousand words and their bigrams: a search over the characters of the CTC head finds texts of these words,
and the language model scores the best of them and its own. The best sum wins. Slower, with far fewer errors.</p></header>"""


def create_words(ready: Callable[[], ScoringRecogniser], sound: gr.Audio, reference: gr.Textbox) -> None:
    """Lay the card out within the Blocks that is being built; it transcribes `sound`."""
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        run = gr.Button("Transcribe in listed words", elem_id="words-run", size="md")
        page = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="words-transcript")
        record = json_drawer("words-record")
    run.click(
        _transcriber(ready), [sound, reference], [record, page],
        **queued_beside(page), concurrency_id=DECODING, concurrency_limit=1,
        api_name="transcribe_in_listed_words",
        api_description="Transcribe a sound in the words of a list, as the judge does: a record with text, candidates and "
        "their scores and, with a reference, WER; then the same as HTML.",
    )  # fmt: skip


def _transcriber(ready: Callable[[], ScoringRecogniser]) -> Callable[[str | None, str | None], list[object]]:
    warm = lru_cache(maxsize=1)(partial(_warmed, ready))

    def transcribe_in_listed_words(sound: str | None, reference: str | None) -> list[object]:
        with showing_errors():
            if sound is None:
                raise PCGError(NO_SOUND)
            recogniser, lexicon = warm()
            samples = read_sound(Path(sound), recogniser.sample_rate)
            heard = hear_in_words(recogniser, lexicon, samples, recogniser.sample_rate, reference or "")
        return [heard.record(), wording_html(heard)]

    return transcribe_in_listed_words


def _warmed(ready: Callable[[], ScoringRecogniser]) -> tuple[ScoringRecogniser, Lexicon]:
    """Load, and transcribe a second of noise: the first call of a process is slow, and would distort the RTFx."""
    recogniser, lexicon = ready(), load_lexicon()
    noise = np.random.default_rng(0).normal(0.0, 0.1, recogniser.sample_rate).astype(np.float32)
    hear_in_words(recogniser, lexicon, noise, recogniser.sample_rate)
    return recogniser, lexicon
