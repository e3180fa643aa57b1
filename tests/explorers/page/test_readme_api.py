"""The README's call from another program, as it stands there."""

import re

from pcg.files import PROJECT

README = PROJECT / "README.md"


def test_the_call_works_as_it_is_printed(address: str) -> None:
    (example,) = re.findall(r"```python\n(from gradio_client .*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert "http://127.0.0.1:7860" in example
    names: dict[str, object] = {}
    exec(example.replace("http://127.0.0.1:7860", address), names)
    figures = names["figures"]
    assert figures["text"] == "The morning sun was warm."
    assert (figures["settings"]["method"], figures["settings"]["beta"]) == ("ssd", 0.2)
    assert len(figures["tokens"]) > 0
