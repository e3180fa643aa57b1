"""The start of the page without the stubs that gradio writes for editors."""

import subprocess
import sys

SCRIPT = """
import ast, inspect
parsed, before, parse = [], inspect.getfile, ast.parse
ast.parse = lambda *arguments, **options: parsed.append(arguments) or parse(*arguments, **options)
{first}
import gradio
assert inspect.getfile is before and inspect.getfile(gradio.Textbox).endswith("textbox.py")
print(sum("gradio" in str(source) for source, *_ in parsed))
"""


def sources_parsed(first: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(first=first)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def test_gradio_does_not_parse_its_own_sources_and_all_else_is_as_before() -> None:
    assert sources_parsed("import explorers.without_stubs") == 0
    assert sources_parsed("") > 10
