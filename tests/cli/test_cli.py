"""The command line's contract: JSON on the last line, exit codes, one sentence for bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from pcg.cli import main
from pcg.settings import Settings, is_numeric
from pcg.synthesis.synthesizer import Synthesizer

REQUIRED = {
    "method", "text", "seed", "tokens", "audio_seconds", "wall_seconds", "tokens_per_second", "rtf", "rounds",
    "acceptance_rate", "mean_acceptance_length", "settings",
}  # fmt: skip


def last_json(capsys) -> dict:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_help_names_every_command_and_loads_nothing_heavy():
    code = "import sys; from pcg.cli import main\ntry: main(['--help'])\nfinally: print({'torch', 'numpy'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for command in ("speak", "compare", "groups", "bench", "transcribe", "swap", "experiment", "report", "train"):
        assert f"\n  {command} " in said
    assert said.endswith("set()\n")


def test_normalise_shows_words_and_phonemes_and_names_what_is_left_out(capsys):
    assert main(["normalise", "Dr. Smith [paid](/pˈAd/) $5.2M, 日本."]) == 0
    words, phonemes, left_out = capsys.readouterr().out.splitlines()
    assert words == "words     Dr. Smith [paid](/pˈAd/) five point two million dollars."
    assert phonemes.startswith("phonemes  dˈɑktəɹ smˈɪθ")
    assert left_out == "left out  日本"
    assert main(["normalise", "日本"]) == 2


def test_speak_writes_a_wav_that_its_seed_repeats_and_prints_its_figures(model, tmp_path, capsys):
    files = [tmp_path / f"{number}.wav" for number in range(4)]
    asked = [("ar", 5), ("pcg", 5), ("pcg", 5), ("pcg", 6)]
    for (method, seed), out in zip(asked, files, strict=True):
        assert (
            main(["speak", "hello", "--model", model, "--method", method, "--seed", str(seed), "--out", str(out), "--json"])
            == 0
        )
        said, last = capsys.readouterr().out.splitlines()
        figures = json.loads(last)
        assert set(figures) >= REQUIRED
        assert (figures["method"], figures["settings"]["seed"]) == (method, seed)
        samples, rate = soundfile.read(out)
        assert rate == 16_000
        assert len(samples) / rate == pytest.approx(figures["audio_seconds"], abs=1e-3)
        if method == "ar":
            assert "accepted" not in said
        else:
            assert f"{figures['acceptance_rate']:.0%} of drafted and {figures['acceptance_of_tested']:.0%} of tested" in said
            assert "by position " + ", ".join(f"{share:.0%}" for share in figures["acceptance_by_position"]) in said
    *_, first, again, other = (file.read_bytes() for file in files)
    assert first == again
    assert first != other


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_one_sentence(model, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main(["speak", "hello", "--out", "-", "--model", model]) == 2
    assert capsys.readouterr().err == "pcg: The disk is full: what was written is not whole.\n"


def test_a_pause_is_heard_in_a_file_and_in_a_stream(model, tmp_path, capsysbinary):
    text, out = "hello [pause:0.5] yes.", tmp_path / "a.wav"
    assert main(["speak", text, "--model", model, "--out", str(out), "--json"]) == 0
    figures = json.loads(capsysbinary.readouterr().out.decode().strip().splitlines()[-1])
    ((before, seconds),) = figures["pauses"]
    assert 0 < before < figures["tokens"]
    assert seconds == 0.5
    samples, rate = soundfile.read(out)
    start = round(before * (len(samples) - 0.5 * rate) / figures["tokens"])
    assert not samples[start : start + rate // 2].any()
    # A dash pours the sound to standard output, and its figures to standard error.
    assert main(["speak", text, "--model", model, "--out", "-", "--json"]) == 0
    poured = capsysbinary.readouterr()
    assert json.loads(poured.err.decode().strip().splitlines()[-1])["tokens"] == figures["tokens"]
    assert len(poured.out) == 2 * len(samples)


@pytest.mark.parametrize(
    ("heard", "made", "kept"),
    [
        (["yellow", "hello", "hello"], 2, 1),  # stops at no errors
        (["yes yes yes", "hell no", "yellow no"], 3, 1),  # the first of equals
        (["", "oh no no"], 2, 1),  # silence has fewer errors than babble, and is not kept
    ],
)
def test_verified_takes_keep_the_one_with_the_fewest_word_errors(model, tmp_path, monkeypatch, capsys, heard, made, kept):
    hear_in_turn(monkeypatch, heard)
    out, plain = tmp_path / "a.wav", tmp_path / "b.wav"
    assert (
        main(["speak", "hello", "--model", model, "--seed", "4", "--verify", str(len(heard)), "--out", str(out), "--json"]) == 0
    )
    told = capsys.readouterr()
    figures = json.loads(told.out.splitlines()[-1])
    takes = figures["verified"]["takes"]
    assert [take["heard"] for take in takes] == heard[:made]
    assert [take["seed"] for take in takes] == [4, 5, 6][:made]
    assert figures["seed"] == 4 + kept
    assert f"kept seed {4 + kept} of {made} takes in " in told.err
    assert figures["verified"]["seconds"] == pytest.approx(sum(take["seconds"] for take in takes), abs=0.01)
    assert main(["speak", "hello", "--model", model, "--seed", str(4 + kept), "--out", str(plain)]) == 0
    assert out.read_bytes() == plain.read_bytes()


def test_verified_takes_are_poured_whole_and_need_a_word(model, monkeypatch, capfdbinary):
    speak = ["speak", "hello", "--model", model, "--verify", "2", "--out", "-", "--json"]
    hear_in_turn(monkeypatch, ["hello"])
    assert main(speak) == 0
    poured = capfdbinary.readouterr()
    figures = json.loads(poured.err.decode().splitlines()[-1])
    assert len(poured.out) == 2 * round(16_000 * figures["audio_seconds"])
    hear_in_turn(monkeypatch, ["", " "])
    assert main(speak) == 2
    refused = capfdbinary.readouterr()
    assert refused.out == b""
    assert b"No words were understood in 2 takes" in refused.err


def hear_in_turn(monkeypatch, texts):
    """Replace the judge of words by one that hears `texts` in turn."""
    coming = iter(texts)

    class Judge:
        name = "a judge"

        def transcribe(self, recordings, sample_rate):
            return [next(coming) for _ in recordings]

    monkeypatch.setattr("pcg.asr.judges.load_judge", lambda name, device: Judge())


@pytest.fixture
def spoken(monkeypatch):
    """What is said from now on, as (text, method), in that order."""
    said, take = [], Synthesizer.take

    def spy(self, text, settings, *rest, **options):
        said.append((text, settings.method))
        return take(self, text, settings, *rest, **options)

    monkeypatch.setattr(Synthesizer, "take", spy)
    return said


def test_compare_says_a_text_in_turns_whose_order_changes_and_tells_acceptance(model, spoken, capsys):
    assert main(["compare", "hello, yes", "--model", model, "--repeat", "3", "--threads", "1", "--json"]) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    assert (figures["text"], figures["repeat"], figures["threads"]) == ("hello, yes", 3, 1)
    said = [method for text, method in spoken if text == "hello, yes"]  # not the warming up
    orders = [said[i : i + 4] for i in range(0, len(said), 4)]
    assert len(orders) == 3
    assert all(set(order) == set(figures["takes"]) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    for take in figures["takes"].values():
        expected = take["tokens_per_second"] / figures["takes"]["ar"]["tokens_per_second"]
        assert take["speedup"] == pytest.approx(expected, rel=1e-2, abs=1e-3)
    assert all(title in head for title in ("of drafted", "of tested", "by position"))
    for row, take in zip(rows[1:], list(figures["takes"].values())[1:], strict=True):
        assert f"{take['acceptance_rate']:.1%}" in row
        assert f"{take['acceptance_of_tested']:.1%}" in row
        assert " ".join(f"{100 * share:.0f}" for share in take["acceptance_by_position"]) in row


def test_groups_shrink_to_singletons_as_theta_rises(model, capsys):
    assert main(["groups", "--model", model, "--theta", "0.2,0.5,1", "--json"]) == 0
    rows = last_json(capsys)["thetas"]
    sizes = [row["mean_size"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert rows[-1]["groups"] == rows[-1]["singletons"] == rows[-1]["vocab"]
    assert rows[-1]["multi_member_share"] == 0
    assert all(row["seconds"] >= 0 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["speak", ""], "text"),
        (["speak", "你好，世界"], "text"),
        (["speak", "hello [pause:6]"], "pause"),
        (["speak", "hello", "--voice", "nobody"], "voice"),
        (["speak", "hello", "--theta", "3"], "theta is 3.0, but must be a number from 0.2 to 1."),
        (["speak", "hello", "--method", "magic"], "method"),
        (["speak", "hello", "--reference", "no.wav", "--reference-text", "hi"], "audio file"),
        (["speak", "hello", "--temperature", "warm"], "temperature is 'warm', but must be a number from 0 to 2."),
        (["speak"], "text"),
        (["sing"], "sing"),
        (["train", "everything"], "stage is 'everything'"),
        (["groups", "--theta", "0.3,x"], "theta"),
        (["groups", "--similarity", "taste"], "similarity"),
        (["compare", "hello", "--repeat", "0"], "repeat"),
        (["speak", "hello", "--model", "nowhere"], "model"),
        (["transcribe", "missing.wav"], "audio file"),
        (["transcribe", "missing.wav", "--mode", "magic"], "mode"),
        (["speak", "hello", "--verify", "0"], "verify is '0', but must be at least 1."),
        (["speak", "hello", "--out", "take.mp3"], "out is 'take.mp3', but must be a name that ends in .wav"),
        (["speak", "hello", "--reference-text", "hi"], "reference-text is 'hi', but must be left out"),
        (["speak", "hello", "--reference", __file__, "--reference-text", "你"], "transcript is '你', but must be English"),
        (["speak", "[hello](/☃/)"], "phoneme is '☃', but must be one of"),
        (["serve", "--voices", __file__, "--port", "0"], "voices is"),
        (["bench", "shape", "--device", "tpu"], "device is 'tpu', but must be cpu"),
        (["train", "corpus", "--work", "never", "--seed", "-1"], "seed is '-1', but must be a whole number from 0"),
        (["train", "corpus", "--work", "never"], "prose is missing"),
        (["replay", "sd", "--by", "phone"], "by is 'phone', but must be one of entropy"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(model, capsys, arguments, named):
    without = "--model" in arguments or arguments[0] in ("sing", "train", "transcribe", "bench", "replay")
    given = arguments if without else [*arguments, "--model", model]
    assert main(given) == 2
    captured = capsys.readouterr()
    assert named in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert "Traceback" not in captured.err


def test_the_options_of_a_take_are_the_fields_of_settings(capsys):
    assert main(["speak", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in said
        assert field.description in said
        assert name in ("method", "lookahead") or is_numeric(name) is False or Settings.allowed(name)[2:] in said
