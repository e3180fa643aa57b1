"""The Settings section: a take as JSON, link or code; import of a JSON or WAV file; a take generated again from it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

import gradio as gr
from gradio.components import Component

from explorers.errors import page_error, showing_errors
from explorers.session import Session
from explorers.settings.actions import (
    CHOICES,
    LAST,
    arrived,
    model_of,
    page_address,
    read_link,
    shared_label,
    stored_of,
    values_of,
    wav_file,
    write_out,
)
from explorers.settings.presets import create_presets, kept_presets
from explorers.shared.blocks import DECODING, player, queued_beside
from explorers.shared.readout import failure_html, message_html
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import PCGError
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.snippets import ENDPOINT
from pcg.takes.stored import Origin, Stored, read_stored
from pcg.takes.take import Speak, last_take

HEADING = """<p class="groups">Text, voice, settings and seed define a take: with the same weights on the same computer they
give the same tokens and, with the same number of threads, the same samples. Every WAV file from this page contains them.</p>"""
READY = "Upload a JSON file, or a WAV file from this page: its settings are applied to the controls. No take is generated."
KINDS = {"json": ("JSON", "json"), "link": ("Link", None), "python": ("Python", "python"), "shell": ("Shell", "shell"),
         "curl": ("curl", "shell")}  # fmt: skip
NOTHING = [""] * len(KINDS)
LISTEN = """() => {
  addEventListener("hashchange", () => { if (location.hash.startsWith("#take=")) location.reload(); });
  return [window.location.href];
}"""
AGAIN = "held => {{ if (held) ({again})(); }}"
"""What the page runs when it opens, and once the controls have the settings that a link held, if it did. A link that is opened
where the page is open already only changes what is behind the #."""

Targets = Sequence[Mapping[str, Component]]
Updates = dict[Component, object]


@dataclass(frozen=True)
class ImportPlaces:
    """Where imported settings go: as they are, the message about them, the button that repeats them, every panel's controls."""

    settings: gr.Textbox
    message: gr.HTML
    repeat: gr.Button
    targets: Targets

    @property
    def all(self) -> list[Component]:
        return [self.settings, self.message, self.repeat, *(place for target in self.targets for place in target.values())]


def create_settings(
    page: gr.Blocks,
    synthesizer: Synthesizer,
    origin: Origin,
    session: gr.State,
    targets: Targets,
    told: gr.HTML | None = None,
    again: str = "() => {}",
    open: bool = False,
    speak: Speak | None = None,
) -> gr.BrowserState:
    """Lay the section out within `page`, which is being built.

    session: holds a Session, whose takes are written out. targets: the controls of each panel that settings move, by the names
    of `CompareRequest` and of `Settings`; every panel moves as far as it has such controls. told: where a take that came by a
    link has its label, beside the player of the card that the first target's "method" names; again: the script that then
    generates it; speak: that of the synthesizer, or of a service that others speak by, too. What is returned holds a
    visitor's own presets.
    """
    own = kept_presets()
    with gr.Accordion("Settings: save, share and repeat a take", open=open, elem_id="settings"):
        gr.HTML(HEADING, apply_default_css=False)
        with gr.Row(equal_height=False, elem_classes="lab-pair"):
            with gr.Column(scale=3, min_width=340, elem_classes="lab-card"):
                which, codes, status = _take_away(session, synthesizer, origin)
            with gr.Column(scale=2, min_width=320, elem_classes="lab-card lab-form"):
                file, brought, repeat, sound = _bring_in(synthesizer)
                create_presets(page, own, targets)
    # Filled by the browser when the page opens; the settings that were imported last are repeated.
    address = gr.Textbox(visible=False, label="address")
    held = gr.Textbox(visible=False, label="settings")
    write = _writer(synthesizer, origin)
    writing = {"fn": write, "inputs": [which, session, address], "outputs": [status, *codes]}
    quiet = {"queue": False, "show_progress": "hidden"}
    which.input(
        **writing, **quiet, api_name="take_settings",
        api_description="A take of this session as JSON, link, Python, shell and curl; 'last', or that of a method.",
    )  # fmt: skip
    session.change(
        lambda _, *rest: [LAST, *write(LAST, *rest)], writing["inputs"], [which, *writing["outputs"]],
        **quiet, api_visibility="private",
    )  # fmt: skip
    places, shared = ImportPlaces(held, brought, repeat, targets), gr.State()
    opened = page.load(
        _link_reader(synthesizer, origin, address, places, shared, told), address,
        [address, shared, *places.all, *([told] if told else [])], **quiet, js=LISTEN, api_name="open_link",
        api_description="The settings that a share link holds, for every control; without any, nothing changes.",
    )  # fmt: skip
    opened.then(**writing, **quiet, api_visibility="private")
    opened.then(None, held, js=AGAIN.format(again=again), api_visibility="private")
    if told:
        key = targets[0]["method"]
        labelled = {"fn": _labeller(synthesizer, origin), "inputs": [shared, session, key], "outputs": told}
        for seen in (opened.then, session.change, partial(key.change, trigger_mode="multiple")):
            seen(**labelled, **quiet, api_visibility="private")
    file.upload(
        _file_reader(synthesizer, origin, places), file, places.all, show_progress="hidden", concurrency_limit=None,
        api_name="import_settings", api_description="The settings in a JSON or WAV file, for every control; no take.",
    )  # fmt: skip
    repeat.click(
        on_gpu(_repeater(speak or synthesizer.speak, origin, Path(sound.GRADIO_CACHE)), gpu_seconds), held, sound,
        **queued_beside(brought), concurrency_id=DECODING, concurrency_limit=1,
        api_name=ENDPOINT, api_description="Generate a take again from its JSON (see take_settings); answers with a WAV file.",
    )  # fmt: skip
    return own


def _take_away(session: gr.State, synthesizer: Synthesizer, origin: Origin) -> tuple[gr.Radio, list[gr.Code], gr.HTML]:
    labels = [("last take", LAST), *((method.upper(), method) for method in CHOICES[1:])]
    which = gr.Radio(labels, value=LAST, label="Take", elem_id="stored-take")
    codes = []
    message, *values = _writer(synthesizer, origin)(LAST, session.value, "")
    with gr.Tabs():
        for (name, (label, language)), value in zip(KINDS.items(), values, strict=True):
            with gr.Tab(label, elem_id=f"as-{name}"):
                code = gr.Code(
                    value, language, label=label, show_label=False, interactive=False, wrap_lines=True, lines=3,
                    max_lines=24, show_line_numbers=False, buttons=["copy", "download"], elem_id=f"stored-{name}",
                )  # fmt: skip
            codes.append(code)
    return which, codes, gr.HTML(message, apply_default_css=False, elem_id="stored-status")


def _bring_in(synthesizer: Synthesizer) -> tuple[gr.File, gr.HTML, gr.Button, gr.Audio]:
    file = gr.File(label="Settings: a JSON or WAV file", file_types=[".json", ".wav"], height=130, elem_id="settings-file")
    brought = gr.HTML(message_html(READY), apply_default_css=False, elem_id="settings-status")
    repeat = gr.Button("Generate this take again", visible=False, elem_id="repeat")
    sound = player(synthesizer, "The repeated take", "repeated", visible=False)
    return file, brought, repeat, sound


def _writer(synthesizer: Synthesizer, origin: Origin) -> Callable[..., list[str]]:
    """A take of the session as the texts to copy; without one the reason, which is no error."""
    model = model_of(synthesizer.voice)

    def write(which: str, session: Session, address: str) -> list[str]:
        try:
            written = write_out(stored_of(session, which, synthesizer, origin), model, address)
        except PCGError as error:
            return [message_html(escape(str(error), quote=False)), *NOTHING]
        return ["", *(getattr(written, name) for name in KINDS)]

    return write


def _file_reader(synthesizer: Synthesizer, origin: Origin, places: ImportPlaces) -> Callable[[str | None], Iterator[Updates]]:
    def read(file: str | None) -> Iterator[Updates]:
        try:
            stored = read_stored(Path(file)) if file else None
        except PCGError as error:
            yield {places.message: failure_html(error)}
            raise page_error(error) from error
        yield _updates(stored, synthesizer, origin, places)

    return read


def _link_reader(
    synthesizer: Synthesizer, origin: Origin, address: gr.Textbox, places: ImportPlaces, shared: gr.State, told: gr.HTML | None
) -> Callable[[str], Updates]:
    def read(opened: str) -> Updates:
        stored = None
        try:
            stored = read_link(opened)
            updates = _updates(stored, synthesizer, origin, places, shared=True)
        except PCGError as error:
            # A toast would be gone before the page that is just opening has drawn it.
            reason = escape(f"The link contains no take: {error}", quote=False)
            updates = {places.message: message_html(reason)} | ({told: _told_html(reason)} if told else {})
        return {address: page_address(opened), shared: stored, **updates}

    return read


def _labeller(synthesizer: Synthesizer, origin: Origin) -> Callable[[Stored | None, Session, str], object]:
    def label(stored: Stored | None, session: Session, key: str) -> object:
        if stored is None:
            return gr.skip()
        said = shared_label(stored, session, key, origin, tuple(synthesizer.voice.references))
        return _told_html(said) if said else ""

    return label


def _told_html(words: str) -> str:
    return f'<p class="shared" role="status">{words}</p>'


def _updates(
    stored: Stored | None, synthesizer: Synthesizer, origin: Origin, places: ImportPlaces, shared: bool = False
) -> Updates:
    """What shows `stored`, which came by a link if it was `shared`; without it nothing changes."""
    if stored is None:
        return {places.settings: gr.skip()}
    voices = synthesizer.voice.references
    values = values_of(stored, voices)
    controls = {place: values[name] for target in places.targets for name, place in target.items() if name in values}
    can_repeat = gr.update(visible=stored.reference is None and stored.voice in voices)
    message = message_html(arrived(stored, origin, voices, shared))
    return {places.settings: stored.to_json(), places.message: message, places.repeat: can_repeat, **controls}


def _repeater(speak: Speak, origin: Origin, cache: Path) -> Callable[[str], object]:
    def repeat(settings: str) -> object:
        """Generate the stored take again; the WAV file contains its settings."""
        with showing_errors():
            stored = Stored.from_json(settings)
            take = last_take(speak(stored.text, stored.settings, stored.voice, stream=stored.streamed))
            again = Stored.of(take, origin, streamed=stored.streamed)
        return gr.update(value=str(wav_file(take, again, cache)), visible=True) if len(take.audio) else None

    return repeat
