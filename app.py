"""The page: composes the explorers over one synthesizer. `python app.py` serves it, here or as a Hugging Face Space."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

# Read when gradio and the hub client are imported: nothing on this page needs the network.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gradio as gr

from explorers.compare import create_compare
from explorers.example import EXAMPLE, read_example
from explorers.experiments import create_experiments
from explorers.export import create_export
from explorers.listen_token import create_listen
from explorers.listening_test import create_listening_test
from explorers.map import create_map
from explorers.reading import Session
from explorers.recognise import create_recognise
from explorers.settings import create_settings
from explorers.statistics import create_statistics
from explorers.swap import create_swap
from explorers.theme import launch_options
from explorers.tools import offer_tools
from explorers.tune import connect_map, create_tune
from pcg.errors import InputError, PCGError
from pcg.experiments.worker import WorkerSpec
from pcg.recognition.embedded import EMBEDDED as RECOGNISER
from pcg.recognition.embedded import load_recogniser
from pcg.recognition.judges import load_judge
from pcg.stored import Origin
from pcg.synthesizer import Synthesizer
from pcg.voice import load_voice

MASTHEAD = """<div class="masthead"><h1>PCG Lab</h1>
<p>Speculative decoding for speech tokens, to hear, see and tune.</p></div>"""
QUEUE_LENGTH = 64
KEEP_SOUND_SECONDS = 6 * 3600


def create_app(synthesizer: Synthesizer, example: Path = EXAMPLE, recogniser: Path = RECOGNISER) -> gr.Blocks:
    """The whole page; a panel is one more line. `example`: the folder of the takes that are ready when it opens; `recogniser`:
    that of the recogniser, without which its panel is left out."""
    # Takes are files in a temporary folder, and would fill the disk of a page that runs for weeks.
    with gr.Blocks(title="PCG Lab", fill_width=True, delete_cache=(3600, KEEP_SOUND_SECONDS)) as app:
        gr.HTML(MASTHEAD, apply_default_css=False)
        recorded = read_example(example)
        session = gr.State(Session.of_recorded(recorded.readings) if recorded else Session())
        origin, voice = Origin.of(synthesizer.voice), synthesizer.voice
        judge = "embedded" if recogniser.is_dir() else "pocketsphinx"
        spec = WorkerSpec(str(voice.folder), judge, voice.target.device.type)
        with gr.Tab("Compare", elem_id="compare"):
            compared = create_compare(synthesizer, origin, session, recorded)
        with gr.Tab("Tune", elem_id="tune"):
            tuned = create_tune(synthesizer, origin)
        with gr.Tab("Map", elem_id="map"):
            view = create_map(synthesizer, session)
            connect_map(synthesizer, tuned, view)
            with view.listen:
                create_listen(synthesizer, session, view.anchor, view.second, view.theta, view.similarity)
            with gr.Column(elem_classes="lab-takes"):
                create_statistics(synthesizer, view.theta, view.similarity)
                create_export(synthesizer, view.theta, view.similarity)
        with gr.Tab("Swap", elem_id="swap"):
            create_swap(synthesizer, spec, session)
        with gr.Tab("Listening test", elem_id="listening"):
            create_listening_test(synthesizer, lru_cache(maxsize=1)(partial(load_judge, judge)), session)
        with gr.Tab("Experiments", elem_id="experiments"):
            create_experiments(app, synthesizer, spec)
        if recogniser.is_dir():
            with gr.Tab("Recognise", elem_id="recognise"):
                create_recognise(synthesizer, lru_cache(maxsize=1)(partial(load_recogniser, recogniser)), session)
        create_settings(app, synthesizer, origin, session, [tuned.controls, compared], {"Tune": tuned.newest})
    return app.queue(max_size=QUEUE_LENGTH)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        synthesizer = Synthesizer(load_voice(options.model, options.device))
        app = create_app(synthesizer)
        synthesizer.warm_up()
        if options.mcp:
            offer_tools(app)
        _serve(app, options)
    except PCGError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _serve(app: gr.Blocks, options: argparse.Namespace) -> None:
    served = {"server_name": options.host, "server_port": options.port, "share": options.share, "mcp_server": options.mcp}
    try:
        app.launch(**served, **launch_options())
    except OSError as error:
        address = f"{options.host or 'default'}:{options.port or 'default'}"
        raise InputError("host and port", address, "a free address of this computer") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Serve PCG Lab, the page that says a text four ways.")
    parser.add_argument("--host", help="address to listen on (default: this computer only, or GRADIO_SERVER_NAME)")
    parser.add_argument("--port", type=int, help="port to listen on (default: the first free one from 7860)")
    parser.add_argument("--model", default="embedded", help="'embedded', or a folder that holds a voice")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: bfloat16 and CUDA graphs (default cpu)")
    parser.add_argument("--share", action="store_true", help="also make a public link")
    parser.add_argument("--mcp", action="store_true", help="also offer every endpoint as a tool to models (MCP)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
