"""A take as a few lines to copy, which say it again on the machine that said it first: Python, shell and curl. The tokens are
the same, and with the same number of threads the samples, too.

A text may hold quotes, `$`, backslashes and newlines: Python gets its `repr`, the shell gets it through `shlex.quote`.
"""

import json
from shlex import join, quote

from pcg.settings import Settings, is_numeric
from pcg.takes.stored import OTHER_DRAFT, PRECISIONS, TRAINED, Stored

ENDPOINT = "repeat_take"
RECORDING_FILE = "recording.wav"
RECORDING_WORDS = "the words in it"
BRING = f"# {RECORDING_FILE} stands for the recording that was the voice: it is not stored."
FOLDER = "# The voice is a folder of that name: say where it lies."
DRAFT_FOLDER = "# The draft was another trained one, in a folder: say where it lies."
EMBEDDED = "embedded"


def python_snippet(stored: Stored, model: str = EMBEDDED) -> str:
    """A script that makes the take, its tokens in `take.tokens`, and writes speech.wav. model: as `load_voice` takes it."""
    device = f", {stored.origin.device!r}" if stored.origin.device != "cpu" else ""
    draft = "".join(f", draft={choice!r}" for choice in _draft(stored))
    speaker, reference = f"{stored.voice!r}", []
    if stored.reference is not None:
        reference = [BRING, f"reference = voice.reference_from_audio(Path({RECORDING_FILE!r}), {RECORDING_WORDS!r})"]
        speaker += ", reference"
    asked = f"{stored.text!r}, settings, {speaker}"
    spoken = f"*_, take = synthesizer.speak({asked}, stream=True)" if stored.streamed else f"take = synthesizer.take({asked})"
    origin = f"Origin.of(voice){', reference' if stored.reference else ''}{', streamed=True' if stored.streamed else ''}"
    lines = [
        "from pathlib import Path",
        "",
        "from pcg.audio import write_wav",
        "from pcg.settings import Settings",
        "from pcg.takes.stored import Origin, Stored",
        "from pcg.synthesis.synthesizer import Synthesizer",
        "from pcg.synthesis.voice import load_voice",
        "",
        *_folder(model),
        *_draft_folder(stored),
        f"voice = load_voice({model!r}{device}{draft}, precision={precision_of(stored)!r})",
        "synthesizer = Synthesizer(voice)",
        f"settings = {stored.settings!r}",
        *reference,
        spoken,
        f'write_wav(Path("speech.wav"), take.audio, take.sample_rate, Stored.of(take, {origin}).to_json())',
    ]
    return "\n".join(lines) + "\n"


def shell_snippet(stored: Stored, model: str = EMBEDDED) -> str:
    """A command that writes speech.wav. A streamed take is said at once: the same tokens, and samples within -45 dB."""
    settings = stored.settings
    words = ["python", "-m", "pcg", "speak", "--method", settings.method, "--similarity", settings.similarity]
    words += ["--sampler", settings.sampler, "--verification", settings.verification]
    for name in filter(is_numeric, Settings.model_fields):
        words += [f"--{name.replace('_', '-')}", f"{getattr(settings, name)!r}"]
    words += [f"--{name}" for name in ("adaptive", "hierarchical") if getattr(settings, name)]
    if stored.reference is None:
        words += ["--voice", stored.voice]
    else:
        words += ["--reference", RECORDING_FILE, "--reference-text", RECORDING_WORDS]
    words += ["--model", model, "--device", stored.origin.device, "--precision", precision_of(stored), "--out", "speech.wav"]
    words += [word for choice in _draft(stored) for word in ("--draft", choice)]
    notes = [*_folder(model), *_draft_folder(stored), *([BRING] if stored.reference else [])]
    notes += ["# It was streamed: the tokens are the same, the samples almost."] if stored.streamed else []
    # A text may begin with a dash: after two of them nothing is an option.
    return "\n".join([*notes, join([*words, "--", stored.text])]) + "\n"


def curl_snippet(stored: Stored, address: str) -> str:
    """Three calls to the page at `address`: ask, wait, fetch speech.wav. A take of a recording cannot be asked for so."""
    if stored.reference is not None:
        return "# The voice was a recording, which is not stored: this page cannot say it again by itself.\n"
    call, asked = f"{address.rstrip('/')}/gradio_api/call/{ENDPOINT}", json.dumps({"data": [stored.to_json()]})
    event = """sed 's/.*"event_id": *"\\([^"]*\\)".*/\\1/'"""
    url = """sed -n 's/.*"url": *"\\([^"]*\\)".*/\\1/p'"""
    return (
        f"event=$(curl -s -H 'Content-Type: application/json' -d {quote(asked)} {quote(call)} | {event})\n"
        f'url=$(curl -sN {quote(call)}/"$event" | {url})\n'
        'curl -s "$url" -o speech.wav\n'
    )


def precision_of(stored: Stored) -> str:
    return stored.origin.precision or PRECISIONS[stored.origin.device]


def _draft(stored: Stored) -> list[str]:
    """How the draft has to be chosen, if it is not the voice's own."""
    kind = stored.origin.draft
    return [] if kind == TRAINED else ["draft" if kind.startswith(OTHER_DRAFT) else kind]


def _draft_folder(stored: Stored) -> list[str]:
    return [DRAFT_FOLDER] if stored.origin.draft.startswith(OTHER_DRAFT) else []


def _folder(model: str) -> list[str]:
    return [] if model == EMBEDDED or "/" in model else [FOLDER]  # a repository of the hub is loaded by its name
