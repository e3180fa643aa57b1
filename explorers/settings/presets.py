"""Presets: the papers' settings, and a visitor's own, which stay in that visitor's browser."""

from collections.abc import Mapping, Sequence
from html import escape

import gradio as gr
from gradio.components import Component

from explorers.errors import showing_errors
from explorers.shared.readout import failure_html, message_html
from pcg.errors import PCGError
from pcg.settings import METHODS, Settings
from pcg.takes.presets import LONGEST_NAME, PAPERS, Preset, find_preset, forget, keep, read_presets, write_presets

# Fixed, so that presets outlive a restart of the server. The "secret" is public: it hides nothing, and nothing here is secret.
STORAGE_KEY = "pcg-lab-presets"
STORAGE_SECRET = "pcg-lab"
HINT = "A preset changes the settings, but not text, voice and seed."
STORED = "Stored in this browser."
DELETED = "Deleted."
KNOBS = (
    "method", "theta", "lookahead", "beta", "temperature", "adaptive", "similarity", "sampler", "top_k", "top_p",
    "verification", "lookahead_cost",
)  # fmt: skip


def kept_presets() -> gr.BrowserState:
    """What holds a visitor's own presets, as `pcg.takes.presets.read_presets` reads them. Gradio asks the browser for them when
    it draws the place in which this is called, so no closed accordion may be around it."""
    return gr.BrowserState([], storage_key=STORAGE_KEY, secret=STORAGE_SECRET)


def create_presets(page: gr.Blocks, own: gr.BrowserState, targets: Sequence[Mapping[str, Component]]) -> None:
    """Lay the section out within `page`; `own` is of `kept_presets`. A preset moves all of `targets`; the first is where a new
    one is read from."""
    chosen = gr.Dropdown(
        _names(()), value=PAPERS[0].name, label="Preset", info="From the papers, or your own.", elem_id="preset",
        filterable=False,
    )  # fmt: skip
    use = gr.Button("Apply", elem_id="use-preset", size="md")
    note = gr.HTML(_described(PAPERS[0]), apply_default_css=False, elem_id="preset-note")
    with gr.Row(elem_classes="lab-seed"):
        # Without a limit of its own, which would cut what is pasted, and say nothing.
        name = gr.Textbox(
            label="Name for the current settings", info=f"Up to {LONGEST_NAME} characters.", elem_id="preset-name", scale=3
        )
        add = gr.Button("Save", elem_id="keep-preset", size="md", scale=1, min_width=70)
        drop = gr.Button("Delete", elem_id="forget-preset", size="md", scale=1, min_width=70)
    places = [component for target in targets for component in target.values()]
    knobs = {name: component for name, component in targets[0].items() if name in KNOBS}
    private = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    # Its value is the browser's, so it is known only once the page is open there.
    page.load(lambda values: gr.update(choices=_names(read_presets(values))), own, chosen, **private)
    chosen.change(_describe, [chosen, own], note, **private)
    use.click(
        lambda name, values: _use(name, values, targets), [chosen, own], places, queue=False, show_progress="hidden",
        api_name="preset", api_description="The settings of a preset of the papers, or of the visitor's own (name, settings).",
    )  # fmt: skip
    add.click(
        lambda name, values, *states: _add(name, values, dict(zip(knobs, states, strict=True))),
        [name, own, *knobs.values()], [own, chosen, note], **private,
    )  # fmt: skip
    drop.click(_drop, [chosen, own], [own, chosen, note], **private)


def _names(own: Sequence[Preset]) -> list[str]:
    return [preset.name for preset in (*PAPERS, *own)]


def _described(preset: Preset) -> str:
    said = f"{preset.source}. {preset.note or HINT}"
    return message_html(escape(said, quote=False))


def _describe(name: str, values: object) -> str:
    with showing_errors():
        return _described(find_preset(read_presets(values), name))


def _use(name: str, values: object, targets: Sequence[Mapping[str, Component]]) -> list[object]:
    with showing_errors():
        settings = find_preset(read_presets(values), name).settings.as_dict()
    updates = [settings[knob] if knob in KNOBS else gr.skip() for target in targets for knob in target]
    return updates if len(updates) > 1 else updates[0]


def _add(name: str, values: object, knobs: Mapping[str, object]) -> tuple[object, ...]:
    # The take in hand may be that of a preset, which is no method.
    known = {knob: value for knob, value in knobs.items() if knob != "method" or value in METHODS}
    try:
        own = keep(read_presets(values), Preset(name.strip(), kept_settings(known)))
    except PCGError as error:
        return gr.skip(), gr.skip(), failure_html(error)
    return write_presets(own), gr.update(choices=_names(own), value=name.strip()), message_html(STORED)


def kept_settings(knobs: Mapping[str, object]) -> Settings:
    """The settings of a take by the method of `knobs`, beside which the page may show those that this method does not have."""
    method = str(knobs.get("method", Settings().method))
    return Settings.from_dict({**knobs, "method": "pcg"}).for_method(method)


def _drop(name: str, values: object) -> tuple[object, ...]:
    own = read_presets(values)
    if name not in [preset.name for preset in own]:
        return gr.skip(), gr.skip(), message_html("Presets of the papers cannot be deleted.")
    left = forget(own, name)
    return write_presets(left), gr.update(choices=_names(left), value=PAPERS[0].name), message_html(DELETED)
