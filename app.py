"""The page: composes the explorers over one synthesizer. `python app.py` serves it, here or as a Hugging Face Space."""

import explorers  # noqa: F401 - before gradio

# isort: split
import argparse
import os
import signal
import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from time import sleep

import gradio as gr

from explorers.how_it_works.map import create_map
from explorers.how_it_works.swap import create_swap
from explorers.judging import Judges
from explorers.listen.example import EXAMPLE, read_example
from explorers.listen.layout import create_listen
from explorers.more.recognition import create_recognition
from explorers.more.spoof import create_spoof
from explorers.requests import Page, can_offer_tools, offer_tools
from explorers.results.listening import create_listening_test
from explorers.results.results import create_results, shipped_ids
from explorers.session import Session
from explorers.shared.readout import ROUND_HTML, banner_html, masthead_html
from explorers.shared.terms import create_terms
from explorers.theme import launch_options
from explorers.zero_gpu import is_lent
from pcg.asr.embedded import EMBEDDED as RECOGNISER
from pcg.asr.embedded import load_recogniser
from pcg.asr.judges import FIRST_JUDGE
from pcg.cli.options import MODEL_HELP
from pcg.errors import InputError, PCGError
from pcg.experiments.worker import WorkerSpec
from pcg.saved_take import Origin
from pcg.serving.protection import LIMITS, own_folder
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import AUTO, EMBEDDED, load_voice

TITLE = "PCG Lab"
IN_ITS_PLACE = "The embedded voice is used instead."
QUEUE_LENGTH = 64
SWITCH_SECONDS = 2e-4
FILES = "GRADIO_TEMP_DIR"
# A browser needs both cores of a small computer to draw the page.
OPENING_SECONDS = 3.0
INTERRUPTED = 130


def build_page(
    synthesizer: Synthesizer, example: Path | None = None, recogniser: Path = RECOGNISER, trouble: str = "", draft: str = AUTO
) -> gr.Blocks:
    """Compose the page.

    Args:
        example: the folder of the takes that are ready when it opens, None for the shipped ones of the embedded voice.
        recogniser: the folder of the recogniser, without which its panel is left out.
        trouble: why the requested voice is not loaded.
        draft: how the voice's draft was chosen.
    """
    voice, origin = synthesizer.voice, Origin.of(synthesizer.voice)
    own = EXAMPLE if voice.folder == EMBEDDED else None
    recorded = read_example(folder) if (folder := example or own) else None
    load_judges = lru_cache(maxsize=1)(Judges.load)
    spec = WorkerSpec(str(voice.folder), FIRST_JUDGE, voice.device, draft=draft, precision=voice.precision)
    ids = shipped_ids(spec)
    # Takes are files in a temporary folder, and would fill the disk of a page that runs for weeks.
    with Page(title=TITLE, fill_width=True, delete_cache=(3600, int(LIMITS.keep_seconds))) as page:
        gr.HTML(masthead_html(TITLE, voice), apply_default_css=False)
        if trouble or voice.notice:
            gr.HTML(banner_html(f"{trouble} {voice.notice}".strip()), apply_default_css=False)
        session = gr.State(recorded.session if recorded else Session())
        with gr.Tab("Listen", elem_id="listen-tab"):
            listen = create_listen(page, synthesizer, origin, session, load_judges, recorded, ids)
        with gr.Tab("How it works", elem_id="how-tab"):
            gr.HTML(ROUND_HTML, apply_default_css=False, elem_id="how-round")
            with gr.Tabs(elem_classes="lab-parts"):
                with gr.Tab("Map", elem_id="map"):
                    create_map(synthesizer, session, listen.in_hand, listen.stage)
                with gr.Tab("Swap test", elem_id="swap"):
                    create_swap(synthesizer, load_judges, session, listen.in_hand)
        with gr.Tab("Results", elem_id="results-tab"), gr.Tabs(elem_classes="lab-parts"):
            with gr.Tab("Measured", elem_id="measured"):
                create_results(page, synthesizer, spec, ids)
            with gr.Tab("Listening test", elem_id="listening"):
                create_listening_test(page, synthesizer, listen.controls, listen.speaker.speak)
        judges = synthesizer.decoder.detectors is not None  # which know the codes of this voice
        if recogniser.is_dir() or judges:
            with gr.Tab("More", elem_id="more-tab"), gr.Tabs(elem_classes="lab-parts"):
                if recogniser.is_dir():
                    with gr.Tab("Recognition", elem_id="recognise"):
                        load = lru_cache(maxsize=1)(partial(load_recogniser, recogniser))
                        create_recognition(synthesizer, load, session, listen.in_hand)
                if judges:
                    with gr.Tab("Spoof detectors", elem_id="spoof"):
                        create_spoof(synthesizer, listen.controls, listen.speaker.speak)
        create_terms()
    return page.queue(max_size=QUEUE_LENGTH, api_open=False)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # The thread that decodes would else wait up to 5 ms a round for those that make sounds and draw, and is timed.
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        draft, trouble = options.draft, ""
        try:
            voice = load_voice(options.model, options.device, draft, options.precision)
        except PCGError as error:  # a running page can show what went wrong
            voice, draft, trouble = load_voice(), AUTO, f"{error} {IN_ITS_PLACE}"
            print(error, file=sys.stderr)
        synthesizer = Synthesizer(voice, longest_seconds=LIMITS.job_seconds, exact_only=options.exact_only)
        # Takes and uploads lie in a folder of this process, which removes them when it is stopped.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with own_folder("pcg-lab") as folder:
            os.environ[FILES] = str(folder)
            page = build_page(synthesizer, trouble=trouble, draft=draft)
            if options.mcp:
                offer_tools(page)
            try:
                _launch(page, options)
                if not is_lent():  # the first takes of a process are slow; the example can be played meanwhile
                    sleep(OPENING_SECONDS)
                    synthesizer.warm_up()
                page.block_thread()
            finally:
                page.settle()
    except PCGError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _launch(page: gr.Blocks, options: argparse.Namespace) -> None:
    served = {"server_name": options.host, "server_port": options.port, "share": options.share}
    try:
        page.launch(**served, prevent_thread_lock=True, **launch_options(tuple(options.allow_host), options.mcp))
    except OSError as error:
        address = f"{options.host or 'default'}:{options.port or 'default'}"
        raise InputError("host and port", address, "a free address of this computer") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Serve PCG Lab, the page that compares four ways to decode speech tokens.")
    parser.add_argument("--host", help="address to listen on (default: this computer only, or GRADIO_SERVER_NAME)")
    parser.add_argument("--port", type=int, help="port to listen on (default: the first free one from 7860)")
    chosen = {
        "model": ("embedded", MODEL_HELP),
        "device": ("cuda" if is_lent() else "cpu", "cpu, or cuda with CUDA graphs"),
        "draft": (AUTO, "as for pcg speak"),
        "precision": (AUTO, "float32, bfloat16, or auto"),
    }
    for name, (usual, meaning) in chosen.items():
        default = os.environ.get(name.upper()) or usual
        parser.add_argument(f"--{name}", default=default, help=f"{meaning} (default: {name.upper()}, or {usual})")
    named = os.environ.get("ALLOW_HOST", "").split()
    parser.add_argument("--allow-host", action="append", default=named, metavar="NAME", help="a name that it answers to")
    parser.add_argument("--exact-only", action="store_true", help="refuse methods that change the target's distribution")
    parser.add_argument("--share", action="store_true", help="also make a public link")
    on_space = "SPACE_ID" in os.environ and can_offer_tools()
    parser.add_argument("--mcp", action="store_true", default=on_space, help="also offer tools to models (MCP); on in a Space")
    return parser


if __name__ == "__main__":
    sys.exit(main())
