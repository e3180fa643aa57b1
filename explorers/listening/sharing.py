"""The link of a listening test: the button that makes one, and what a page does that opens one."""

from collections.abc import Callable, Mapping

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

from explorers.errors import showing_errors
from explorers.listening.actions import Kept, ListeningRequest
from explorers.listening.form import ListeningControls
from explorers.listening.link import MARK, choices, read_test, write_test
from explorers.shared.blocks import by_name, parameters_of
from explorers.shared.readout import failure_html, message_html
from pcg.errors import PCGError
from pcg.synthesis.synthesizer import Synthesizer

MOVED = ("voice", "similarity", "theta", "lookahead", "beta", "temperature")
SENT = "This test came by a link: texts, systems, seed and order are set. Press Prepare the test."
OTHER_VOICE = "This test came by a link and was made with another voice: what you hear may differ. Press Prepare the test."
WITH_ADDRESS = "(...values) => [...values.slice(0, -1), location.origin + location.pathname.replace(/\\/$/, '')]"
OPENED = f"""() => {{
  addEventListener("hashchange", () => {{ if (location.hash.startsWith("{MARK}")) location.reload(); }});
  return [location.href];
}}"""
GO = f"""() => {{
  if (!location.hash.startsWith("{MARK}")) return;
  document.querySelector("#evidence-button")?.click();
  setTimeout(() => document.querySelector("#listening-button")?.click(), 0);
}}"""

Updates = dict[Component, object]


def create_link(
    page: gr.Blocks, synthesizer: Synthesizer, digest: str, controls: ListeningControls, shared: Mapping[str, Component]
) -> Dependency:
    """Lay button and link out within `page`; what is returned has run when the page has read the link that opened it. digest:
    the voice's. shared: controls of other tabs that move with this one's, by the names of `ListeningRequest`."""
    with gr.Column(elem_classes="lab-form"):
        make = gr.Button("Make a link to this test", size="md", elem_id="listening-link-make")
        link = gr.Textbox(
            label="Link to this test", info="Whoever opens it gets the same texts, systems, seed and order.", visible=False,
            interactive=False, buttons=["copy"], lines=2, elem_id="listening-link",
        )  # fmt: skip
    address = gr.Textbox(visible=False, label="address")
    make.click(
        _writer(digest), [*controls.inputs, controls.kept, address], link, js=WITH_ADDRESS, show_progress="hidden", queue=False,
        api_name="listening_link", api_description="A link that fixes a listening test: texts, systems, seed and order.",
    )  # fmt: skip
    moved = {name: place for name, place in shared.items() if name in MOVED}
    outputs = [*controls.inputs, controls.kept, controls.rating, controls.own, controls.status, *moved.values()]
    opened = page.load(
        _reader(synthesizer, digest, controls, moved), address, outputs, js=OPENED, show_progress="hidden", queue=False,
        api_name="open_listening_link", api_description="The listening test that a link holds, for every control.",
    )  # fmt: skip
    opened.then(js=GO, api_visibility="private")
    return opened


def _writer(digest: str) -> Callable[..., object]:
    @parameters_of(ListeningRequest, "kept", "address")
    def write(*values: object) -> object:
        *inputs, kept, address = values
        with showing_errors():
            request = ListeningRequest(**by_name(ListeningRequest, inputs))
            return gr.update(value=write_test(request, kept, digest, address), visible=True)

    return write


def _reader(
    synthesizer: Synthesizer, digest: str, controls: ListeningControls, moved: Mapping[str, Component]
) -> Callable[[str], Updates]:
    def read(address: str) -> Updates:
        try:
            found = read_test(address or "", synthesizer)
        except PCGError as error:
            return {controls.status: failure_html(error)}
        return {controls.status: gr.skip()} if found is None else _updates(*found)

    def _updates(request: ListeningRequest, kept: Kept, made_by: str) -> Updates:
        values = vars(request) | {
            "compared": gr.update(choices=choices(kept), value=list(request.compared)),
            "reference": gr.update(choices=choices(kept), value=request.reference),
        }
        return {
            **{place: values[name] for name, place in controls.named.items()},
            **{place: values[name] for name, place in moved.items()},
            controls.kept: dict(kept),
            controls.rating: gr.update(visible=request.design == "rating"),
            controls.own: gr.update(visible=request.source == "own"),
            controls.status: message_html(SENT if digest.startswith(made_by) else OTHER_VOICE),
        }

    return read
