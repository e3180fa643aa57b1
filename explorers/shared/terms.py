"""The terms of the page (`terms.yaml`), shown at every dotted word and in one list.

A dotted word is a link to its entry in the list, so it works with the keyboard and with a screen reader; `terms.js` shows the
entry beside the word instead of following the link.
"""

from pathlib import Path

import gradio as gr
import yaml
from pydantic import BaseModel, TypeAdapter

HERE = Path(__file__).parent


class Term(BaseModel, frozen=True, extra="forbid"):
    """A term of the field: its name, its meaning in one sentence, its equation as HTML, and the source of that."""

    name: str
    meaning: str
    equation: str = ""
    source: str = ""


TERMS = TypeAdapter(dict[str, Term]).validate_python(yaml.safe_load((HERE / "terms.yaml").read_text(encoding="utf-8")))


def term_html(key: str, words: str | None = None) -> str:
    """Return a dotted word that explains the term `key`: `words`, or the term's name; both are the page's own."""
    return f'<a class="term" href="#term-{key}" aria-describedby="term-{key}">{words or TERMS[key].name}</a>'


def term_info(key: str, words: str | None = None) -> str:
    """Return the same for the `info` of a gradio component, which knows links but no HTML."""
    return f"[{words or TERMS[key].name}](#term-{key})"


def explained(key: str, more: str = "") -> str:
    """Return the `info` of a control: the meaning of the term, one sentence of the panel, and a link to the equation."""
    return " ".join(filter(None, (TERMS[key].meaning, more, term_info(key, "Equation"))))


def terms_html() -> str:
    """Return all terms as one folded list."""
    entries = ""
    for key, term in sorted(TERMS.items(), key=lambda item: item[1].name.lower()):
        stem, _, index = term.name.partition("_")
        name = f"{stem}<sub>{index}</sub>" if index else term.name
        equation = f'<span class="term-equation">{term.equation}</span>' if term.equation else ""
        source = f"<small>{term.source}</small>" if term.source else ""
        entries += f'<div id="term-{key}"><dt>{name}</dt><dd>{term.meaning} {equation} {source}</dd></div>'
    return f'<details class="terms" id="terms"><summary>Terms and equations</summary><dl>{entries}</dl></details>'


def create_terms() -> gr.HTML:
    """Lay the list out within the Blocks that is being built; its script serves every dotted word of the page."""
    return gr.HTML(
        html_template=terms_html() + '<div class="term-tip" data-part="tip" role="tooltip" popover="manual"></div>',
        js_on_load=(HERE / "terms.js").read_text(encoding="utf-8"),
        apply_default_css=False,
        elem_id="terms-list",
    )
