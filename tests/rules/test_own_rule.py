"""The rule in docs/acceptance.md runs as it stands there, on the tiny voice."""

import re

from pcg.places import PROJECT

DOCUMENT = PROJECT / "docs" / "acceptance.md"


def test_the_documents_own_rule_speaks_and_prints_its_acceptance_rate(tiny_voice_folder, tmp_path, monkeypatch, capsys):
    section = DOCUMENT.read_text(encoding="utf-8").split("## Your own acceptance rule\n")[1].split("\n## ")[0]
    (snippet,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(snippet.splitlines()) < 20
    assert snippet.count('"embedded"') == snippet.count('"heart"') == 1
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", tmp_path)
    exec(snippet.replace('"embedded"', repr(str(tiny_voice_folder))).replace('"heart"', '"one"'), {})
    (rate,) = re.fullmatch(r"accepted ([\d.]+)% of the drafted tokens\n", capsys.readouterr().out).groups()
    assert 0 < float(rate) < 100
