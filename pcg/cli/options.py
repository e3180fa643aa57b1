"""Options that commands share, made from `Settings` and from tables of name, kind, default and sentence."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcg.errors import InputError
from pcg.settings import Settings, bounds, is_numeric

if TYPE_CHECKING:
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.text.prompt import Reference

Options = Mapping[str, tuple]
"""By name: kind, default, sentence and, for numbers, the least and the greatest value."""

AUTO = "auto"
JUDGES = "whisper, embedded, or from the hub whisper-large, hubert"
BOTH_JUDGES = "whisper,embedded"
MODEL_HELP = (
    "'embedded', llasa-1b, llasa-3b, llasa-8b, neutts-air, neutts-nano, OWNER/NAME of the hub (@REVISION pins it), or a folder"
)
MODEL: Options = {
    "model": (str, "embedded", MODEL_HELP),
    "draft": (str, AUTO, "auto, layers:0,1,27, none, or a folder"),
    "device": (str, "cpu", "cpu, or cuda with CUDA graphs"),
    "precision": (str, AUTO, "float32, bfloat16, int8 (weights of 8 bits), or auto: bfloat16 where the machine has it"),
}
SPEAKER: Options = {
    "voice": (str, None, "a voice of the model [default: its first]"),
    "reference": (Path, None, "a recording in place of --voice: 1 to 10 seconds, for LLaSA 15"),
    "reference_text": (str, None, "the words in --reference [default: what the recogniser hears]"),
}
JSON: Options = {"json": (bool, False, "print one JSON object on the last line")}
THREADS: Options = {"threads": (int, None, "threads of torch [default: one a core]", 1)}


def _setting(name: str) -> tuple[Any, object, str]:
    field, values = Settings.model_fields[name], Settings.allowed(name)
    if field.annotation is bool:
        return bool, False, field.description
    kind = field.annotation if is_numeric(name) else str
    return kind, None, f"{field.description} {values[0].upper()}{values[1:]} [default: {field.default}]"


METHOD: Options = {"method": _setting("method")}
SETTINGS: Options = {name: _setting(name) for name in Settings.model_fields if name not in METHOD}
SIMILARITY: Options = {"similarity": SETTINGS["similarity"]}


def with_options(*tables: Options) -> Callable[[Callable], Callable]:
    """Replace the parameter `options` of a command by one option for each row of `tables`."""
    rows = {name: row for table in tables for name, row in table.items()}

    def decorate(command: Callable) -> Callable:
        @wraps(command)
        def wrapped(**given: Any) -> Any:
            options = SimpleNamespace(**{name: given.pop(name) for name in rows})
            return command(**given, options=options)

        own = [p for p in signature(command, eval_str=True).parameters.values() if p.name != "options"]
        made = []
        for name, (kind, default, sentence, *limits) in rows.items():
            flag, shown = f"--{name.replace('_', '-')}", default not in (None, False)
            option = typer.Option(flag, help=sentence, show_default=shown, **dict(zip(("min", "max"), limits, strict=False)))
            made.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]))
        wrapped.__signature__ = Signature([p.replace(kind=Parameter.KEYWORD_ONLY) for p in own] + made)
        wrapped.__annotations__ = {p.name: p.annotation for p in [*own, *made]}
        del wrapped.__wrapped__
        return wrapped

    return decorate


def read_settings(options: SimpleNamespace) -> Settings:
    """Return the settings that were given, the defaults for all others."""
    given = {name: getattr(options, name, None) for name in Settings.model_fields}
    return Settings.from_dict({name: value for name, value in given.items() if value is not None})


def load_synthesizer(options: SimpleNamespace) -> "Synthesizer":
    """Set the threads of torch, if they were given; load the voice, and print its notice on standard error."""
    import torch

    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    if threads := getattr(options, "threads", None):
        torch.set_num_threads(threads)
    voice = load_voice(options.model, options.device, options.draft, options.precision)
    if voice.notice:
        print(voice.notice, file=sys.stderr)
    return Synthesizer(voice, exact_only=getattr(options, "exact_only", False))


def find_speaker(options: SimpleNamespace, synthesizer: "Synthesizer") -> "tuple[str, Reference | None]":
    """Return the name of a known voice, or the name of a recording and the reference made of it."""
    if options.reference is None:
        if options.reference_text:
            raise InputError("reference-text", options.reference_text, "left out without --reference")
        name = options.voice or next(iter(synthesizer.voice.references))
        synthesizer.voice.reference(name)
        return name, None
    if options.voice is not None:
        raise InputError("voice", options.voice, "left out when --reference is given")
    from pcg.asr.judges import understand

    hear = None if options.reference_text else partial(understand, sample_rate=synthesizer.voice.codec.sample_rate)
    reference = synthesizer.voice.reference_from_audio(options.reference, options.reference_text or "", hear)
    if hear is not None:
        print(f"heard in {options.reference.name}: {reference.text}", file=sys.stderr)
    return options.reference.stem, reference


def numbers(field: str, text: str, kind: type = float) -> list[Any]:
    """Read numbers with commas between."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(field, text, f"{'whole ' if kind is int else ''}numbers with commas between") from None


def read_thetas(text: str) -> list[float]:
    """Read thetas with commas between."""
    thetas = numbers("theta", text)
    for theta in thetas:
        bounds("theta").check("theta", theta)
    return thetas


def print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows of cells right-aligned under their titles."""
    widths = {title: max(8, len(title) + 2) for title in rows[0]}
    for row in [dict.fromkeys(rows[0]) | {title: title for title in rows[0]}, *rows]:
        print("".join(f"{cell:>{widths[title]}}" for title, cell in row.items()))
