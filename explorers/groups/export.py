"""Export of the groups and of the map as files."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr

from explorers.errors import showing_errors
from pcg.groups.atlas import export_atlas, export_groups
from pcg.settings import bounds
from pcg.synthesis.synthesizer import Synthesizer

HEADING = """<header class="title"><h2>Export<small>groups at this theta, and the map</small></h2>
<p>safetensors and parquet; the schema is in <code>pcg/groups/atlas.py</code>. <code>map.parquet</code> opens in Embedding
Atlas.</p></header>"""


def create_export(synthesizer: Synthesizer, theta: gr.Slider, similarity: gr.Dropdown) -> None:
    """Lay the section out within the Blocks that is being built."""
    gr.HTML(HEADING, apply_default_css=False)
    with gr.Row():
        button = gr.Button("Create the files", elem_id="export", size="md", scale=0, min_width=140)
    files = gr.Files(label="Files", visible=False, interactive=False, elem_id="export-files")
    button.click(
        _exporter(synthesizer), [theta, similarity], files, show_progress="minimal",
        api_name="export_groups",
        api_description="The groups at a theta as groups.safetensors, tokens.parquet and groups.parquet, and map.parquet.",
    )  # fmt: skip


def _exporter(synthesizer: Synthesizer) -> Callable[[float, str], object]:
    # Lives as long as the page: the same theta is written to the same place, so the folder stays small.
    folder = TemporaryDirectory(prefix="pcg-lab-export-")

    def export(theta: float, similarity: str) -> object:
        with showing_errors():
            bounds("theta").check("theta", theta)
            groups, name = synthesizer.library.groups(theta, similarity), synthesizer.voice.name
        place = Path(folder.name) / f"{similarity}-{theta:g}"
        files = export_groups(groups, place, similarity, name)
        files.append(export_atlas(synthesizer.atlas(), place / "map.parquet", name))
        return gr.update(value=[str(file) for file in files], visible=True)

    return export
