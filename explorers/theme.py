"""How the page looks and how it is served: the `launch` arguments that are the same everywhere."""

from pathlib import Path

import gradio as gr

from explorers.colours import SOUND_COLOUR, detector_styles, method_styles
from explorers.listen import layout as listen
from explorers.requests.server import app_options
from explorers.shared import readout, spoof_curves, terms
from pcg.serving.protection import LIMITS

STYLES = Path(__file__).with_name("page.css")
COMPONENTS = (readout, terms, spoof_curves, listen)
FOLDERS = ("how_it_works", "results", "more")


def launch_options(hosts: tuple[str, ...] = ()) -> dict[str, object]:
    """System fonts, our own style sheets, limited requests; `hosts` are names of this server."""
    return {
        "theme": _theme(),
        "css": f"{method_styles()} {detector_styles()}",
        "css_paths": [
            *(STYLES, *(part.STYLES for part in COMPONENTS)),
            *(Path(__file__).parent / name / f"{name}.css" for name in FOLDERS),
        ],
        "max_file_size": "20mb",
        "footer_links": ["api", "settings"],
        "run_history": False,
        "ssr_mode": False,
        "favicon_path": Path(__file__).with_name("icon.png"),
        "state_session_capacity": LIMITS.sessions,
        "app_kwargs": app_options(hosts),
    }


def _theme() -> gr.themes.Base:
    ink, paper, night, chalk = "#1c2024", "#f6f5f2", "#141619", "#e9e7e2"
    return gr.themes.Base(
        primary_hue=gr.themes.colors.amber,
        neutral_hue=gr.themes.colors.stone,
        spacing_size=gr.themes.sizes.spacing_sm,
        radius_size=gr.themes.sizes.radius_sm,
        text_size=gr.themes.sizes.text_sm,
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
        font_mono=["ui-monospace", "SF Mono", "Cascadia Mono", "Menlo", "DejaVu Sans Mono", "monospace"],
    ).set(
        body_background_fill=paper,
        body_background_fill_dark=night,
        body_text_color=ink,
        body_text_color_dark=chalk,
        link_text_color="#8f5a00",
        link_text_color_dark=SOUND_COLOUR,
        link_text_color_hover="#b87400",
        link_text_color_hover_dark="#f3b32a",
        link_text_color_visited="#8f5a00",
        link_text_color_visited_dark=SOUND_COLOUR,
        link_text_color_active="#8f5a00",
        link_text_color_active_dark=SOUND_COLOUR,
        body_text_color_subdued="#5c636b",
        body_text_color_subdued_dark="#a2a8ae",
        block_background_fill="#ffffff",
        block_background_fill_dark="#1c1f23",
        block_border_color="#dedbd4",
        block_border_color_dark="#31353a",
        border_color_primary="#dedbd4",
        border_color_primary_dark="#31353a",
        block_info_text_color="#5c636b",
        block_info_text_color_dark="#a2a8ae",
        block_label_text_color="#5c636b",
        block_label_text_color_dark="#a2a8ae",
        block_info_text_size="12px",
        block_title_text_color=ink,
        block_title_text_color_dark=chalk,
        block_title_text_weight="550",
        input_background_fill="#fbfaf8",
        input_background_fill_dark="#15171a",
        input_border_width="1px",
        input_border_color="#cfcbc3",
        input_border_color_dark="#3b4046",
        # Gradio takes the outline of a focused text box away.
        input_border_color_focus="#b87400",
        input_border_color_focus_dark=SOUND_COLOUR,
        input_shadow_focus="0 0 0 1px #b87400",
        input_shadow_focus_dark=f"0 0 0 1px {SOUND_COLOUR}",
        slider_color="#b87400",
        slider_color_dark=SOUND_COLOUR,
        button_border_width="1px",
        button_border_width_dark="1px",
        button_primary_background_fill=SOUND_COLOUR,
        button_primary_background_fill_dark=SOUND_COLOUR,
        button_primary_background_fill_hover="#f3b32a",
        button_primary_background_fill_hover_dark="#f3b32a",
        button_primary_border_color="#b87400",
        button_primary_border_color_dark=SOUND_COLOUR,
        button_primary_text_color=ink,
        button_primary_text_color_dark=ink,
        button_secondary_background_fill="#ffffff",
        button_secondary_background_fill_dark="#24282d",
        button_secondary_border_color="#cfcbc3",
        button_secondary_border_color_dark="#3b4046",
        button_secondary_text_color=ink,
        button_secondary_text_color_dark=chalk,
    )
