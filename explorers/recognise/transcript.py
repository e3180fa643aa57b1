"""A transcript as HTML: the step that accepted each part, and the errors against a reference.

Words come from a recogniser, a reference or a file's name, so every one of them is escaped.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from explorers.recognise.actions import Alignment, RecognisedSound, TranscriptPart, Word, name_of
from explorers.shared.readout import message_html
from explorers.shared.terms import term_html
from pcg.asr.self_speculative import Stage, Thresholds, Transcript
from pcg.errors import counted

STYLES = Path(__file__).with_name("transcript.css")
STAGE_NAMES: dict[Stage, str] = {"ctc": "CTC gate", "lm": "LM verified", "ar": "AR fall-back"}
STEPS = (
    ("encode", "encode", "the Conformer and its CTC head"),
    ("gate", "gate", "entropies, and the comparison with the CTC gate"),
    ("verify", "verify", "one pass of the language model over sound and draft"),
    ("go_on", "go on", "the language model decodes alone, token by token"),
)
KINDS = {"substitute": "substituted", "insert": "inserted", "delete": "deleted"}
PROMPT = "Upload or record a sound, or use the take in hand."


def transcript_html(hearing: RecognisedSound) -> str:
    """Figures, the step that accepted the text, and the text: words of CTC and of the language model in their colours."""
    if not hearing.parts:
        body = '<p class="said">The sound contains no speech.</p>'
    else:
        body = "".join(_part(part, hearing.thresholds, len(hearing.parts) > 1) for part in hearing.parts)
    figure = (
        f'<p class="counts">Entropy of every frame by {escape(hearing.judge)}, over the sound.</p>' if hearing.parts else ""
    )
    return f'<div class="transcript" role="status">{_readout(hearing)}{_stages(hearing)}{body}{_legend()}{figure}</div>'


def status_html(hearing: RecognisedSound | None) -> str:
    """Beside the button: that the sound is transcribed, or that there is none."""
    return message_html(PROMPT if hearing is None else f"Transcribed {hearing.seconds:.1f} s of sound.")


def alignment_html(alignment: Alignment | None, judge: str) -> str:
    """The errors in their places, beside their counts."""
    if alignment is None:
        return message_html("With a reference text, errors appear here.")
    errors = alignment.errors
    counts = ", ".join(f"{alignment.count(kind)} {name}" for kind, name in KINDS.items())
    rate = f"<b>{errors.rate:.1%}</b> {term_html('wer')} by {escape(judge)}"
    caption = f"{rate}: {counts}, of {counted(errors.length, 'word')} of the reference."
    words = " ".join(map(_word, alignment.words))
    return f'<div class="transcript"><p class="counts">{caption}</p><p class="said aligned">{words}</p>{_errors_legend()}</div>'


def _readout(hearing: RecognisedSound) -> str:
    judge = escape(hearing.judge)
    wer = "–" if hearing.alignment is None else f"{hearing.alignment.errors.rate:.1%}"
    rtfx = "–" if hearing.rtfx is None else f"{hearing.rtfx:.1f}×"
    times = hearing.times
    steps = "".join(
        f'<div title="{meaning}"><dt>{name}</dt><dd>{getattr(times, field):.1f} ms</dd></div>' for field, name, meaning in STEPS
    )
    ctc, lm = (value for value in vars(hearing.thresholds).values())
    gates = [
        "no CTC gate" if ctc is None else f"τ CTC {ctc:g} nats",
        "no verification" if lm is None else f"τ LM {lm:g}",
    ]
    notes = " · ".join((f"{hearing.seconds:.2f} s of sound", name_of(hearing.thresholds), *gates, f"all figures: {judge}"))
    return (
        f'<div class="readout"><p class="headline"><span class="speed"><b>{wer}</b> {term_html("wer")} by {judge}</span>'
        f'<span class="speed-up"><b>{rtfx}</b> <small>{term_html("rtfx")} of {judge}'
        f'</small></span></p><dl>{steps}</dl><p class="notes">{notes}</p></div>'
    )


def _stages(hearing: RecognisedSound) -> str:
    total, only = len(hearing.parts), hearing.parts[0].transcript if len(hearing.parts) == 1 else None
    chips = []
    for stage, count in hearing.stages.items():
        note = _note(stage, only, hearing.thresholds) if only else f"{count} of {counted(total, 'utterance')}"
        chips.append(
            f'<li class="{stage}{" accepting" if count else ""}"><b>{STAGE_NAMES[stage]}</b> <small>{note}</small></li>'
        )
    return f'<ol class="stages" aria-label="Steps, and what each accepted">{"".join(chips)}</ol>'


def _note(stage: Stage, own: Transcript, thresholds: Thresholds) -> str:
    """What a step did with one utterance."""
    if stage == "ctc":
        if thresholds.ctc is None:
            return "disabled"
        frames, above = len(own.entropies), int((own.entropies >= thresholds.ctc).sum())
        looked_at = counted(frames, "frame")
        return f"{above} of {looked_at} not below {thresholds.ctc:g}" if above else f"accepted: {frames} of {looked_at} certain"
    if stage == "lm":
        if thresholds.lm is None:
            return "disabled"
        verified = f"{own.accepted} of {counted(len(own.hypothesis), 'token')} verified"
        return "not needed" if own.stage == "ctc" else f"accepted: {verified}" if own.stage == "lm" else verified
    return f"accepted: {counted(len(own.tokens) - own.accepted, 'token')} written" if own.stage == "ar" else "not needed"


def _part(part: TranscriptPart, thresholds: Thresholds, one_of_many: bool) -> str:
    own = part.transcript
    place = f'<span class="place">{part.begin:.1f} s, {STAGE_NAMES[own.stage]}</span> ' if one_of_many else ""
    kept = f'<span class="kept">{escape(part.accepted)}</span>' if part.accepted else ""
    rest = f'<span class="rewritten">{escape(part.rewritten)}</span>' if part.rewritten else ""
    said = f'<p class="said">{place}{kept}{rest or ("" if kept else "(no words)")}</p>'
    if own.stage != "ar":
        return said
    refused = ""
    if part.refused is not None and thresholds.lm is not None:
        token, likelihood = part.refused
        # Rounded down, or a likelihood just below the threshold would seem to be above it.
        refused = f" Rejected at “{escape(token)}”: likelihood {_floored(likelihood)}, not above {thresholds.lm:g}."
    return f'{said}<p class="draft">CTC draft: “{escape(own.draft)}”.{refused}</p>'


def _floored(likelihood: float) -> str:
    return f"{int(1000 * likelihood) / 1000:.3f}"


def _word(word: Word) -> str:
    meant, heard = escape(word.meant), escape(word.heard)
    if word.kind == "equal":
        return f"<span>{heard}</span>"
    removed = f'<del title="in the reference">{meant}</del>' if meant else ""
    added = f'<ins title="heard">{heard}</ins>' if heard else ""
    return f'<span class="error {word.kind}" title="{KINDS[word.kind]}">{removed}{added}</span>'


def _legend() -> str:
    return _entries((("kept", "drafted by the CTC head and accepted"), ("rewritten", "decoded by the language model")))


def _errors_legend() -> str:
    samples = (Word("substitute", "meant", "heard"), Word("insert", "", "heard"), Word("delete", "meant", ""))
    entries = "".join(f'<span class="entry aligned">{_word(word)} {KINDS[word.kind]}</span>' for word in samples)
    return f'<p class="key">{entries}</p>'


def _entries(entries: Sequence[tuple[str, str]]) -> str:
    marks = "".join(f'<span class="entry"><span class="{kind}">abc</span> {meaning}</span>' for kind, meaning in entries)
    return f'<p class="key">{marks}</p>'
