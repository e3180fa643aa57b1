"""A wording as HTML: its text, or its errors against a reference, and the candidates that it was chosen from.

Words come from a recogniser or a reference, so every one of them is escaped.
"""

from html import escape

from explorers.recognise.transcript import alignment_html
from explorers.recognise.word_list_actions import MOST_CANDIDATES, Wording
from explorers.shared.terms import term_html
from pcg.asr.candidates import CandidateWeights
from pcg.asr.self_speculative import Transcript
from pcg.errors import counted

PROMPT = "Press “Transcribe in listed words” to see the candidates with their scores and the chosen text."
COLUMNS = ("candidate", "sum", "CTC", "LM", "bigrams")
MOST_TABLES = 4


def wording_html(wording: Wording) -> str:
    """The figures, the text, and a table of candidates for each of the first utterances."""
    if not wording.parts:
        return '<div class="transcript" role="status"><p class="said">The sound contains no speech.</p></div>'
    aligned = alignment_html(wording.alignment, wording.judge) if wording.alignment else ""
    said = "" if aligned else f'<p class="said">{escape(wording.text) or "(no words)"}</p>'
    tables = "".join(map(_table, wording.parts[:MOST_TABLES]))
    more = len(wording.parts) - MOST_TABLES
    left_out = f'<p class="draft">In the JSON: candidates of {counted(more, "more utterance")}.</p>' if more > 0 else ""
    weights = CandidateWeights()
    counts = (
        f"{wording.rtfx:.0f}× {term_html('rtfx')} of {escape(wording.judge)}. Log-probabilities in nats; sum: "
        f"{weights.ctc:g} of CTC, {weights.lm:g} of the language model and {weights.bigrams:g} of the bigrams, "
        f"{weights.word:+g} a word."
    )
    return f'{aligned}<div class="transcript" role="status">{said}<p class="draft">{counts}</p>{tables}{left_out}</div>'


def _table(part: Transcript) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    rows = "".join(
        f'<tr><th scope="row" class="candidate">{escape(candidate.text) or "(no words)"}</th>'
        + "".join(f"<td>{value:.1f}</td>" for value in (score, candidate.ctc, candidate.lm, candidate.bigrams))
        + "</tr>"
        for candidate in part.candidates[:MOST_CANDIDATES]
        for score in [CandidateWeights().score(candidate)]
    )
    return (
        '<div class="wide"><table aria-label="Candidates, the best first">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
