"""Validation of values before Gradio handles them, so that every refusal is one sentence of this page.

Gradio lets some wrong values through to the handlers, answers others with a traceback on the server, and fetches an address
given in place of a file.
"""

from pathlib import Path

import gradio as gr
from gradio.blocks import Block
from gradio.components.api_component import Api
from gradio.utils import get_upload_folder, is_in_or_equal

from pcg.errors import InputError
from pcg.settings import Bounds

DEEPEST = 32
LARGEST_NUMBER = 2.0**63
MOST_CHOICES = 12
UPLOADED = "a file that was uploaded to this page"


def checked(field: str, component: Block, value: object) -> object:
    """`value` as the component may send it; raise InputError for anything else. States of the server are not checked."""
    if component.stateful:
        return value
    _check_content(field, value)
    if isinstance(component, gr.Textbox):
        return _text(field, value)
    if isinstance(component, gr.Slider):
        Bounds(component.minimum, component.maximum, 0).check(field, value)
    elif isinstance(component, gr.Number) and value is not None:
        _check_number(field, value, component)
    elif isinstance(component, gr.Checkbox) and not isinstance(value, bool | None):
        raise InputError(field, value, "true or false")
    elif isinstance(component, gr.Radio | gr.Dropdown | gr.CheckboxGroup) and value is not None:
        _check_choice(field, value, component)
    elif isinstance(component, Api) and isinstance(value, dict | list):
        raise InputError(field, value, "a word, a number, true or false")
    elif isinstance(component, gr.Audio | gr.File) and value is not None:
        _check_files(field, value, many=getattr(component, "file_count", "single") != "single")
    return value


def _check_content(field: str, value: object, depth: int = 0) -> None:
    """No part of a value is too deep, is half a character, or is a file that lies elsewhere."""
    if depth > DEEPEST:
        raise InputError(field, "nested very deeply", f"nested at most {DEEPEST} levels deep")
    if isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise InputError(field, value[:40], "text of whole characters")
    elif isinstance(value, dict):
        if "path" in value:
            _check_path(field, value)
        for part in (*value.keys(), *value.values()):
            _check_content(field, part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check_content(field, part, depth + 1)


def _check_path(field: str, file: dict[str, object]) -> None:
    """Refuse what is not an uploaded file, whether it is there or not; an address would be fetched."""
    path = file["path"]
    try:
        inside = isinstance(path, str) and is_in_or_equal(path, get_upload_folder()) and Path(path).is_file()
    except (OSError, ValueError):
        inside = False
    if not inside or file.get("is_stream"):
        raise InputError(field, "another file", UPLOADED)


def _check_files(field: str, value: object, many: bool) -> None:
    files = value if many and isinstance(value, list) else [value]
    if not all(isinstance(file, dict) and "path" in file for file in files):
        raise InputError(field, value, UPLOADED)


def _text(field: str, value: object) -> str:
    """An empty box may come as nothing at all."""
    if not isinstance(value, str | None):
        raise InputError(field, value, "text")
    return value or ""


def _check_number(field: str, value: object, component: gr.Number) -> None:
    low = -LARGEST_NUMBER if component.minimum is None else component.minimum
    high = LARGEST_NUMBER if component.maximum is None else component.maximum
    known = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not known or (component.precision == 0 and value != int(value)):
        kind = "a whole number" if component.precision == 0 else "a number"
        raise InputError(field, value, kind if component.minimum is None else f"{kind} of at least {low:g}")


def _check_choice(field: str, value: object, component: gr.Radio | gr.Dropdown | gr.CheckboxGroup) -> None:
    choices = [value for _, value in component.choices]
    many = isinstance(component, gr.CheckboxGroup) or getattr(component, "multiselect", False)
    listed = ", ".join(map(str, choices)) if len(choices) <= MOST_CHOICES else "the choices on the page"
    if many and not isinstance(value, list):
        raise InputError(field, value, "a list of " + listed)
    for each in value if many else [value]:
        if each not in choices:
            raise InputError(field, each, "one of " + listed)
