"""The page's endpoints as tools for language models, through the MCP server of Gradio."""

from importlib.util import find_spec

import gradio as gr

from pcg.errors import PCGError

MISSING = "The MCP server needs one more package: pip install -r requirements-mcp.txt."


def offer_tools(app: gr.Blocks) -> None:
    """Let every named endpoint of `app` be a tool of that name; raise PCGError where the package is missing.

    Gradio names a tool after its Python function, which for a handler is not descriptive.
    """
    if find_spec("mcp") is None:
        raise PCGError(MISSING)
    for endpoint in app.fns.values():
        if isinstance(endpoint.api_name, str) and endpoint.api_visibility == "public":
            endpoint.fn.__name__ = endpoint.api_name
