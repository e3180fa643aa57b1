"""Speech recognition by self-speculation (arXiv 2603.11243): the transcript of a sound, and the step that decided it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from itertools import takewhile
from operator import eq
from pathlib import Path

import gradio as gr
import numpy as np
import plotly.graph_objects as go

from explorers.colours import BLUE, ORANGE, SOUND_COLOUR, WAVE_COLOUR, axis, layout
from explorers.errors import showing_errors
from explorers.session import Session
from explorers.shared.controls import PRIVATE, pcm, queued_beside
from explorers.shared.readout import message_html, percent
from explorers.shared.terms import explained, term_html
from pcg.asr.listening import as_speech, cut, listen
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS, Thresholds, Times, Transcript
from pcg.audio import load_audio
from pcg.errors import InputError, PCGError, counted
from pcg.metrics.intelligibility import comparable
from pcg.settings import Bounds
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS

STAGES = {"ctc": "CTC gate", "lm": "LM verified", "ar": "AR fall-back"}
PRESET_NAMES = {"accurate": "high accuracy", "fast": "high RTFx", "ar": "AR"}
STEPS = {"encode": "encode", "gate": "gate", "verify": "verify", "go_on": "decode"}
KINDS = {"substitute": "substituted", "insert": "inserted", "delete": "deleted"}
HIGHEST_CTC, HIGHEST_LM = 4.0, 1.0
LONGEST_SECONDS, MOST_FRAMES = 600, 3000
PROMPT = "Upload or record a sound, or use a take of this page."
NO_SOUND = "There is no sound to transcribe: upload or record one, or use a take of this page."
NO_TAKE = "There is no take yet: generate one first."
HEADING = """<header class="title"><h2>Recognition<small>self-speculative, by CTC and a language model</small></h2>
<p>The CTC head of the encoder drafts a text. If every frame is certain, the draft is the transcript. Otherwise the language
model verifies it in one pass, and decodes on its own from the first rejected token.</p></header>"""

Word = tuple[str, str, str]
"""A place of an alignment: "equal", "substitute", "insert" or "delete"; the reference's word; the recognised word."""


def thresholds_of(tau_ctc: float, tau_slm: float) -> Thresholds:
    """Return the thresholds of two sliders: 0 nats switches the CTC gate off, likelihood 1 the verification."""
    Bounds(0, HIGHEST_CTC, 0).check("tau_ctc", tau_ctc)
    Bounds(0, HIGHEST_LM, 0).check("tau_slm", tau_slm)
    return Thresholds(float(tau_ctc) or None, float(tau_slm) if tau_slm < HIGHEST_LM else None)


def sliders_of(preset: str) -> tuple[float, float]:
    """Return the positions of the sliders for one of PRESETS."""
    if preset not in PRESETS:
        raise InputError("preset", preset, "one of " + ", ".join(PRESETS))
    chosen = PRESETS[preset]
    return chosen.ctc or 0.0, HIGHEST_LM if chosen.lm is None else chosen.lm


def align(reference: str, hypothesis: str) -> tuple[Word, ...]:
    """Align two texts word by word with the fewest errors; raise InputError for a reference without words, or too long."""
    import jiwer

    if len(reference) > MAX_CHARACTERS:
        raise InputError("reference", f"{len(reference):,} characters", f"at most {MAX_CHARACTERS:,} characters")
    meant, heard = comparable(reference), comparable(hypothesis)
    if not meant:
        raise InputError("reference", reference, "a text with at least one word")
    result, words = jiwer.process_words(meant, heard), []
    for chunk in result.alignments[0]:
        left = result.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
        right = result.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
        gap = [""] * max(len(left), len(right))
        words += [(chunk.type, *pair) for pair in zip(left or gap, right or gap, strict=True)]
    return tuple(words)


def count(words: tuple[Word, ...], kind: str) -> int:
    return sum(word[0] == kind for word in words)


def error_rate(words: tuple[Word, ...]) -> float:
    """Errors over the words of the reference."""
    return (len(words) - count(words, "equal")) / (len(words) - count(words, "insert"))


def accepted_text(transcript: Transcript) -> str:
    """Return the front of the text that the CTC head drafted and a gate accepted."""
    if transcript.stage != "ar":
        return transcript.text
    # A token may end within a character, or write another space than its neighbours do.
    return transcript.text[: sum(1 for _ in takewhile(bool, map(eq, transcript.text, transcript.accepted_text)))]


@dataclass(frozen=True, eq=False)
class Recognition:
    """The transcript of one sound `speech [N]` by `judge`. parts: the utterances with begin and end in seconds;
    refusals: per part the first rejected token and its likelihood; words: the alignment, None without a reference."""

    judge: str
    thresholds: Thresholds
    speech: np.ndarray
    sample_rate: int
    text: str
    parts: tuple[tuple[Transcript, float, float], ...]
    refusals: tuple[tuple[str, float] | None, ...]
    words: tuple[Word, ...] | None = None

    @property
    def seconds(self) -> float:
        return len(self.speech) / self.sample_rate

    @property
    def times(self) -> Times:
        """Milliseconds of every step over all parts."""
        return Times(*(sum(getattr(part.times, name) for part, *_ in self.parts) for name in vars(Times())))

    @property
    def rtfx(self) -> float | None:
        """Seconds of sound per second of work; None without speech."""
        return 1000 * self.seconds / self.times.total if self.parts else None

    @property
    def stages(self) -> dict[str, int]:
        """The number of parts that each step accepted."""
        return {stage: sum(part.stage == stage for part, *_ in self.parts) for stage in STAGES}

    def record(self) -> dict[str, object]:
        """Return the text and the figures, ready for JSON. stage: the last step that any part needed."""
        needed = [stage for stage, parts in self.stages.items() if parts]
        wer = None if self.words is None else round(error_rate(self.words), 6)
        figures = {"seconds": round(self.seconds, 3), "rtfx": self.rtfx and round(self.rtfx, 2), "wer": wer}
        return {"judge": self.judge, "text": self.text, "stage": needed[-1] if needed else None, **figures}


def recognise(
    recogniser: Recogniser, samples: np.ndarray, sample_rate: int, thresholds: Thresholds, reference: str = ""
) -> Recognition:
    """Transcribe `samples [N]`, and count the errors against `reference`, if there is one."""
    rate = recogniser.sample_rate
    speech = as_speech(samples, sample_rate, rate)
    result = listen(recogniser, speech, rate, thresholds)
    spans = [(place.start / rate, place.stop / rate) for place in cut(speech, rate)]
    parts = tuple((part, *span) for part, span in zip(result.parts, spans, strict=True))
    refusals = tuple(_refusal(recogniser, part) for part in result.parts)
    words = align(reference, result.text) if reference.strip() else None
    return Recognition(recogniser.name, thresholds, speech, rate, result.text, parts, refusals, words)


def _refusal(recogniser: Recogniser, part: Transcript) -> tuple[str, float] | None:
    at = part.accepted
    if part.stage != "ar" or at >= len(part.likelihoods):
        return None
    return recogniser.text(part.hypothesis[at : at + 1]), float(part.likelihoods[at])


def read_sound(path: Path, sample_rate: int) -> np.ndarray:
    """Read a file as mono `[N]`; raise InputError if it is too long for the page."""
    samples = load_audio(path, sample_rate, LONGEST_SECONDS + 1)
    if len(samples) > LONGEST_SECONDS * sample_rate:
        raise InputError("recording", path.name, f"at most {LONGEST_SECONDS // 60} minutes long")
    return samples


def warmed_up(load: Callable[[], Recogniser], synthesizer: Synthesizer) -> Recogniser:
    """Load the recogniser and run all three steps once: the first calls are slow and would distort the times."""
    recogniser, speaker = load(), next(iter(synthesizer.voice.references.values()))
    samples = synthesizer.decode(speaker.codes.tolist(), speaker)
    listen(recogniser, samples, synthesizer.voice.codec.sample_rate, Thresholds(0.0, 1.0))
    return recogniser


def create_recognition(synthesizer: Synthesizer, load: Callable[[], Recogniser], session: gr.State, in_hand: gr.Radio) -> None:
    """Lay the panel out. load: called before the first transcript; session: holds a Session, whose take `in_hand` can be
    transcribed."""
    ready = lru_cache(maxsize=1)(partial(warmed_up, load, synthesizer))
    tau_ctc, tau_slm = sliders_of("accurate")
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
            ctc_info, lm_info = explained("entropy-gate", "0 disables it."), explained("likelihood", "1 disables it.")
            # No reset buttons: they would move the slider without the event of a user's input.
            ctc = gr.Slider(
                0, HIGHEST_CTC, tau_ctc, step=0.05, label="τ CTC, nats", buttons=[], elem_id="tau-ctc", info=ctc_info
            )
            slm = gr.Slider(
                0, HIGHEST_LM, tau_slm, step=0.01, label="τ LM, likelihood", buttons=[], elem_id="tau-slm", info=lm_info
            )
            run = gr.Button("Transcribe", variant="primary", elem_id="recognise-run")
            status = gr.HTML(message_html(PROMPT), apply_default_css=False, elem_id="recognise-status")
        with gr.Column(scale=1, min_width=320, elem_classes="lab-card"):
            gr.HTML(HEADING, apply_default_css=False)
            text = gr.HTML("", apply_default_css=False, elem_id="recognise-transcript")
            errors = gr.HTML("", apply_default_css=False, elem_id="recognise-errors")
            entropies = gr.Plot(show_label=False, visible=False, elem_id="recognise-entropies")
            record = gr.JSON(visible=False)

    def transcribe(sound: str | None, tau_ctc: float, tau_slm: float, reference: str | None) -> list[object]:
        with showing_errors():
            thresholds = thresholds_of(tau_ctc, tau_slm)
            if sound is None:
                raise PCGError(NO_SOUND)
            recogniser = ready()
            samples = read_sound(Path(sound), recogniser.sample_rate)
            result = recognise(recogniser, samples, recogniser.sample_rate, thresholds, reference or "")
        picture = gr.update(value=entropy_figure(result), visible=bool(result.parts))
        told = message_html(f"Transcribed {result.seconds:.1f} s of sound.")
        return [result.record(), transcript_html(result), alignment_html(result), picture, told]

    def take(key: str, session: Session) -> list[object]:
        with showing_errors():
            shown = session.in_hand(key)
            if shown is None or not shown.take.tokens:
                raise PCGError(NO_TAKE)
            made = shown.with_sound()
        return [pcm(made.audio, made.sample_rate), made.text]

    asked, shown = [sound, ctc, slm, reference], [record, text, errors, entropies, status]
    run.click(
        transcribe, asked, shown, api_name="transcribe",
        api_description="Transcribe a sound at two thresholds: a record with text, stage, RTFx, times, entropies and, with a "
        "reference, WER; then the same as HTML and a figure.", **queued_beside(status),
    )  # fmt: skip
    preset.input(sliders_of, preset, [ctc, slm], **PRIVATE)
    last.click(
        take, [in_hand, session], [sound, reference],
        api_name="last_take", api_description="The sound of the chosen take, and its text.",
    )  # fmt: skip


def transcript_html(result: Recognition) -> str:
    """The figures, the step that accepted each part, and the text; words are escaped."""
    if not result.parts:
        return '<div class="transcript" role="status"><p class="said">The sound contains no speech.</p></div>'
    judge, times = escape(result.judge), vars(result.times)
    steps = "".join(f"<div><dt>{name}</dt><dd>{times[step]:.1f} ms</dd></div>" for step, name in STEPS.items())
    readout = (
        f'<div class="readout"><p class="headline"><span class="speed"><b>{result.rtfx:.1f}×</b> {term_html("rtfx")} of '
        f"{judge}</span></p><dl>{steps}</dl></div>"
    )
    chips = "".join(
        f'<li class="{stage}{" accepting" if parts else ""}"><b>{STAGES[stage]}</b> <small>{_note(stage, result)}</small></li>'
        for stage, parts in result.stages.items()
    )
    body = "".join(_part_html(result, at) for at in range(len(result.parts)))
    kinds = {"kept": "drafted and accepted", "rewritten": "decoded by the language model"}
    legend = f'<p class="key">{"".join(f"<span class={kind}>abc</span> {meaning} " for kind, meaning in kinds.items())}</p>'
    return (
        f'<div class="transcript" role="status">{readout}<ol class="stages" aria-label="Steps, and what each accepted">{chips}'
        f"</ol>{body}{legend}</div>"
    )


def _note(stage: str, result: Recognition) -> str:
    """Say in a few words what a step did."""
    if getattr(result.thresholds, stage, 0) is None:
        return "disabled"
    if len(result.parts) > 1:
        return f"{result.stages[stage]} of {counted(len(result.parts), 'utterance')}"
    ((part, *_),) = result.parts
    if stage == "ctc":
        certain = int((part.entropies < result.thresholds.ctc).sum())
        return f"{certain} of {counted(len(part.entropies), 'frame')} certain"
    if part.stage == "ctc" or (stage == "ar" and part.stage == "lm"):
        return "not needed"
    if stage == "lm":
        return f"{part.accepted} of {counted(len(part.hypothesis), 'token')} verified"
    return f"{counted(len(part.tokens) - part.accepted, 'token')} decoded"


def _part_html(result: Recognition, at: int) -> str:
    (part, begin, _), refusal, threshold = result.parts[at], result.refusals[at], result.thresholds.lm
    place = f'<span class="place">{begin:.1f} s, {STAGES[part.stage]}</span> ' if len(result.parts) > 1 else ""
    kept = accepted_text(part)
    spans = [
        f'<span class="{kind}">{escape(text)}</span>'
        for kind, text in (("kept", kept), ("rewritten", part.text[len(kept) :]))
        if text
    ]
    said = f'<p class="said">{place}{"".join(spans) or "(no words)"}</p>'
    if part.stage != "ar":
        return said
    rejected = ""
    if refusal and threshold is not None:
        # Rounded down, or a likelihood just below the threshold would seem to be above it.
        likelihood = f"{int(1000 * refusal[1]) / 1000:.3f}"
        rejected = f" Rejected at “{escape(refusal[0])}”: likelihood {likelihood}, not above {threshold:g}."
    return f'{said}<p class="draft">CTC draft: “{escape(part.draft)}”.{rejected}</p>'


def alignment_html(result: Recognition) -> str:
    """The errors in their places and their counts; nothing without a reference."""
    if result.words is None:
        return ""
    counts = ", ".join(f"{count(result.words, kind)} {name}" for kind, name in KINDS.items())
    of = counted(len(result.words) - count(result.words, "insert"), "word")
    rate = f"<b>{percent(error_rate(result.words))}</b> {term_html('wer')} by {escape(result.judge)}"
    words = " ".join(map(_word_html, result.words))
    caption = f'<p class="counts">{rate}: {counts}, of {of} of the reference.</p>'
    return f'<div class="transcript">{caption}<p class="said aligned">{words}</p></div>'


def _word_html(word: Word) -> str:
    kind, meant, heard = word[0], escape(word[1]), escape(word[2])
    if kind == "equal":
        return f"<span>{heard}</span>"
    removed = f'<del title="in the reference">{meant}</del>' if meant else ""
    added = f'<ins title="heard">{heard}</ins>' if heard else ""
    return f'<span class="error {kind}" title="{KINDS[kind]}">{removed}{added}</span>'


def entropy_figure(result: Recognition) -> go.Figure:
    """Entropy in nats of every CTC frame, and the gate as a line; of a long sound the highest of several frames."""
    step = -(-sum(len(part.entropies) for part, *_ in result.parts) // MOST_FRAMES) or 1
    times, nats = [np.zeros(0)], [np.zeros(0)]
    for part, begin, end in result.parts:
        values = part.entropies.numpy()
        rows = np.pad(values, (0, -len(values) % step), mode="edge").reshape(-1, step).max(axis=1)
        times += [begin + (end - begin) * (np.arange(len(rows)) + 0.5) / len(rows), np.full(1, end)]
        nats += [rows, np.full(1, np.nan)]
    hover = "%{x:.2f}: %{y:.3f} nats<extra></extra>"
    line = go.Scatter(x=np.concatenate(times), y=np.concatenate(nats), line={"color": BLUE, "width": 1.5}, hovertemplate=hover)
    gate = result.thresholds.ctc
    axes = {"xaxis": axis(None, ticksuffix=" s", range=[0, result.seconds]), "yaxis": axis("nats", rangemode="tozero")}
    title = layout("Entropy of every CTC frame" + ("" if gate is None else f", and the gate at {gate:g} nats"))
    figure = go.Figure(line, title | axes | {"height": 220})
    return figure if gate is None else figure.add_hline(gate, line={"color": ORANGE, "width": 2, "dash": "dash"})
