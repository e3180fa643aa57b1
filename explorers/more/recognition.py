"""Speech recognition by self-speculation (arXiv 2603.11243): the transcript of a sound, and the step that decided it."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path

import gradio as gr

from explorers.colours import SOUND_COLOUR, WAVE_COLOUR
from explorers.errors import showing_errors
from explorers.session import NO_TAKE, Session
from explorers.shared.controls import PRIVATE, pcm, queued_beside
from explorers.shared.readout import message_html, percent
from explorers.shared.terms import term_html
from pcg.asr.embedded import Recogniser
from pcg.asr.self_speculative import PRESETS, Recognition, Thresholds, Transcript, listen
from pcg.audio import load_audio
from pcg.errors import InputError, PCGError, counted
from pcg.metrics import intelligibility
from pcg.metrics.quality import for_judges
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS

STAGES = {"ctc": "CTC gate", "lm": "LM verified", "ar": "AR fall-back"}
PRESET_NAMES = {"accurate": "high accuracy", "fast": "high RTFx", "ar": "AR"}
KINDS = {"substitute": "substituted", "insert": "inserted", "delete": "deleted"}
LONGEST_SECONDS = 600
PROMPT = "Upload or record a sound, or use a take of this page."
NO_SOUND = "There is no sound to transcribe: upload or record one, or use a take of this page."
HEADING = f"""<header class="title"><h2>Recognition<small>self-speculative, by CTC and a language model</small></h2>
<p>The CTC head of the encoder drafts a text. If {term_html("entropy-gate", "every frame is certain")}, the draft is the
transcript. Otherwise the language model {term_html("likelihood", "verifies")} it in one pass, and decodes on its own from the
first rejected token.</p></header>"""

Word = tuple[str, str, str]
"""A place of an alignment: "equal", "substitute", "insert" or "delete"; the reference's word; the recognised word."""


def align(reference: str, hypothesis: str) -> tuple[Word, ...]:
    """Align two texts word by word with the fewest errors; raise InputError for a reference without words, or too long."""
    if len(reference) > MAX_CHARACTERS:
        raise InputError("reference", f"{len(reference):,} characters", f"at most {MAX_CHARACTERS:,} characters")
    result, words = intelligibility.align("words", reference, hypothesis), []
    for chunk in result.alignments[0]:
        left = result.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
        right = result.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
        gap = [""] * max(len(left), len(right))
        words += [(chunk.type, *pair) for pair in zip(left or gap, right or gap, strict=True)]
    return tuple(words)


def error_rate(words: Sequence[Word]) -> float:
    """Errors over the words of the reference."""
    kinds = Counter(kind for kind, *_ in words)
    return (len(words) - kinds["equal"]) / (len(words) - kinds["insert"])


def record_of(judge: str, result: Recognition, words: Sequence[Word] | None = None) -> dict[str, object]:
    """Return text and figures, ready for JSON: the last step of any part, and seconds of sound per second of work."""
    needed = [stage for stage in STAGES if any(part.stage == stage for part in result.parts)]
    rtfx = 1000 * result.seconds / sum(sum(part.milliseconds.values()) for part in result.parts) if result.parts else None
    wer = None if words is None else round(error_rate(words), 6)
    figures = {"seconds": round(result.seconds, 3), "rtfx": rtfx and round(rtfx, 2), "wer": wer}
    return {"judge": judge, "text": result.text, "stage": needed[-1] if needed else None, **figures}


def create_recognition(synthesizer: Synthesizer, load: Callable[[], Recogniser], session: gr.State, in_hand: gr.Radio) -> None:
    """Lay the panel out. load: called before the first transcript; session: holds a Session with the take `in_hand`."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"), gr.Column(elem_classes="lab-form"):
            sound = gr.Audio(
                sources=["upload", "microphone"], type="filepath", label="Sound", elem_id="recognise-sound",
                waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR),
            )  # fmt: skip
            last = gr.Button("Use the chosen take", elem_id="recognise-last", size="md")
            reference = gr.Textbox(
                label="Reference", info="The correct text, if known: errors are counted against it.", lines=2, max_lines=6,
                elem_id="recognise-reference",
            )  # fmt: skip
            preset = gr.Radio(
                [(n, key) for key, n in PRESET_NAMES.items()], value="accurate", label="Preset", elem_id="recognise-preset"
            )
            run = gr.Button("Transcribe", variant="primary", elem_id="recognise-run")
            status = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="recognise-status")
        with gr.Column(scale=1, min_width=320, elem_classes="lab-card"):
            gr.HTML(HEADING, apply_default_css=False)
            text = gr.HTML("", apply_default_css=False, elem_id="recognise-transcript")
            errors = gr.HTML("", apply_default_css=False, elem_id="recognise-errors")
            record = gr.JSON(visible=False)

    @lru_cache(maxsize=1)
    def ready() -> Recogniser:
        """Load the recogniser and run all three steps once: the first calls are slow and would distort the times."""
        recogniser, speaker = load(), next(iter(synthesizer.voice.references.values()))
        samples = synthesizer.decode(speaker.codes.tolist(), speaker)
        listen(recogniser, samples, synthesizer.voice.codec.sample_rate, Thresholds(0.0, 1.0))
        return recogniser

    def transcribe(sound: str | None, reference: str | None, preset: str) -> list[object]:
        with showing_errors():
            if sound is None:
                raise PCGError(NO_SOUND)
            recogniser, thresholds = ready(), PRESETS[preset]
            rate = recogniser.sample_rate
            samples = load_audio(Path(sound), rate, LONGEST_SECONDS + 1)
            if len(samples) > LONGEST_SECONDS * rate:
                raise InputError("recording", Path(sound).name, f"at most {LONGEST_SECONDS // 60} minutes long")
            result = listen(recogniser, for_judges(samples, rate, rate), rate, thresholds)
            words = align(reference, result.text) if (reference or "").strip() else None
        told = message_html(f"Transcribed {result.seconds:.1f} s of sound.")
        pages = transcript_html(recogniser, thresholds, result), alignment_html(recogniser.name, words) if words else ""
        return [record_of(recogniser.name, result, words), *pages, told]

    def take(key: str, session: Session) -> list[object]:
        with showing_errors():
            shown = session.in_hand(key)
            if shown is None or not shown.take.tokens:
                raise PCGError(NO_TAKE)
            made = shown.with_sound()
        return [pcm(made.audio, made.sample_rate), made.text]

    run.click(
        transcribe, [sound, reference, preset], [record, text, errors, status], api_name="transcribe",
        api_description="Transcribe a sound: a record with text, stage, RTFx and, with a reference, WER; then HTML.",
        **queued_beside(status),
    )  # fmt: skip
    last.click(take, [in_hand, session], [sound, reference], **PRIVATE)


def transcript_html(recogniser: Recogniser, thresholds: Thresholds, result: Recognition) -> str:
    """Return the speed, the step that accepted each part, and the text; words are escaped."""
    if not result.parts:
        return '<div class="transcript" role="status"><p class="said">The sound contains no speech.</p></div>'
    chips, body = "", ""
    for stage, name in STAGES.items():
        accepted = sum(part.stage == stage for part in result.parts)
        disabled = getattr(thresholds, stage, 0) is None
        note = "disabled" if disabled else f"{accepted} of {counted(len(result.parts), 'utterance')}"
        chips += f'<li class="{stage}{" accepting" if accepted else ""}"><b>{name}</b> <small>{note}</small></li>'
    for part, begin in zip(result.parts, result.starts, strict=True):
        place = f'<span class="place">{begin:.1f} s, {STAGES[part.stage]}</span> ' if len(result.parts) > 1 else ""
        body += f'<p class="said">{place}{escape(part.text) or "(no words)"}</p>'
        if part.stage == "ar":
            verified = f"{part.accepted} of {counted(len(part.hypothesis), 'token')} verified"
            refused = _refusal(recogniser, thresholds, part)
            body += f'<p class="draft">CTC draft: “{escape(part.draft)}”, {verified}.{refused}</p>'
    rtfx = record_of(recogniser.name, result)["rtfx"]
    readout = f"<b>{rtfx:.1f}×</b> {term_html('rtfx')} of {escape(recogniser.name)}"
    return (
        f'<div class="transcript" role="status"><p class="headline"><span class="speed">{readout}</span></p>'
        f'<ol class="stages" aria-label="Steps, and what each accepted">{chips}</ol>{body}</div>'
    )


def _refusal(recogniser: Recogniser, thresholds: Thresholds, part: Transcript) -> str:
    """Say which token of the draft was the first that the language model rejected."""
    at = part.accepted
    if thresholds.lm is None or at >= len(part.likelihoods):
        return ""
    # Rounded down, or a likelihood just below the threshold would seem to be above it.
    likelihood = f"{int(1000 * float(part.likelihoods[at])) / 1000:.3f}, not above {thresholds.lm:g}"
    return f" Rejected at “{escape(recogniser.text(part.hypothesis[at : at + 1]))}”: likelihood {likelihood}."


def alignment_html(judge: str, words: Sequence[Word]) -> str:
    """Return the errors in their places, and their counts; words are escaped."""
    kinds, marked = Counter(kind for kind, *_ in words), []
    for kind, meant, heard in words:
        removed = f'<del title="in the reference">{escape(meant)}</del>' if meant else ""
        added = f'<ins title="heard">{escape(heard)}</ins>' if heard else ""
        same = kind == "equal"
        marked.append(escape(heard) if same else f'<span class="error {kind}" title="{KINDS[kind]}">{removed}{added}</span>')
    counts = ", ".join(f"{kinds[kind]} {name}" for kind, name in KINDS.items())
    rate = f"<b>{percent(error_rate(words))}</b> {term_html('wer')} by {escape(judge)}"
    length = counted(len(words) - kinds["insert"], "word")
    caption = f'<p class="counts">{rate}: {counts}, of {length} of the reference.</p>'
    return f'<div class="transcript">{caption}<p class="said aligned">{" ".join(marked)}</p></div>'
