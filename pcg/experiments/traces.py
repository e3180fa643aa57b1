"""Every test of every round as a Parquet file, and any rule judged on it again without a model.

SD's rounds also hold the likeliest tokens of draft and target at every drafted position, tested or not: what a rule needs. The
rest of each distribution is spread evenly over the other tokens. A replay knows the places that SD came to; another rule would
come to others, so its figures are estimates.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from pcg.codec.codec import Codec
from pcg.errors import AssetError, InputError, first_line
from pcg.experiments.unit import Unit
from pcg.files import check_checksums, replacing, write_checksums
from pcg.groups.audition import sounds_like
from pcg.groups.library import load_or_build_neighbours
from pcg.groups.neighbours import Neighbours, affordable_floor
from pcg.metrics.intelligibility import SECTIONS, read_sentences
from pcg.models.weights import EMBEDDING, SINGLE, read_tensors
from pcg.places import ASSETS, CACHE
from pcg.rules import Coins, Rule, Test, Verdict, entropy, named_rule
from pcg.sampling import as_array
from pcg.settings import bounds
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import EMBEDDED
from pcg.text.prompt import PhonemeReader

SHIPPED = ASSETS / "traces"
TRACES, SENTENCES = "traces.parquet", "sentences.parquet"
MASS, MOST = 0.98, 64
"""Of each distribution the likeliest tokens are kept that together have this mass, at most so many."""
FULL = "SD"
PARTS = ("entropy", "group size", "sound")
"""What acceptance can be told by."""
LISTS = ("draft_tokens", "draft_probs", "target_tokens", "target_probs")
SCHEMA = pa.schema(
    [
        *((name, pa.dictionary(pa.int32(), pa.string())) for name in ("method", "voice", "text")),
        *((name, pa.int32()) for name in ("utterance", "seed", "round", "position", "token", "group", "group_size")),
        ("accepted", pa.bool_()),
        *((name, pa.float32()) for name in ("p", "q", "mass_p", "mass_q", "ratio")),
        *((name, pa.float64()) for name in ("coin", "group_coin")),
        *((name, pa.list_(pa.int32() if name.endswith("tokens") else pa.float16())) for name in LISTS),
    ]
)


JudgedRound = tuple[Tensor, np.ndarray, np.ndarray, Coins, Verdict]
"""Drafted tokens, p, q and coins of a round, and its verdict."""


class Recorder:
    """A rule that notes each round of another one."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.rounds = rule, list[JudgedRound]()

    def __call__(self, drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        verdict = self.rule(drafted, p, q, coins)
        self.rounds.append((drafted.clone(), as_array(p).copy(), as_array(q).copy(), coins, verdict))
        return verdict


def write_traces(folder: Path, synthesizer: Synthesizer, units: Sequence[Unit]) -> int:
    """Speak every unit that drafts, and write its tests and the evaluation sentences into `folder`; return the number of tests.

    Raises InputError where no condition is named SD: its rounds are what a replay judges.
    """
    drafting = [unit for unit in units if unit.settings.method != "ar"]
    if FULL not in [unit.condition.name for unit in drafting]:
        raise InputError("grid", "without it", f"one with a condition that is named {FULL}")
    rows: list[dict[str, object]] = []
    texts: dict[str, int] = {}
    for unit in drafting:
        name, said = unit.condition.rule, unit.utterance
        recorder = Recorder(named_rule(name, synthesizer.library.neighbours) if name else synthesizer.rule(unit.settings))
        synthesizer.take(said.text, unit.settings, said.voice, rule=recorder)
        number = texts.setdefault(said.text, len(texts))
        rows += [row | {"utterance": number} for row in _rows(unit, recorder.rounds)]
    embedding = synthesizer.voice.code_embedding
    schema = SCHEMA.with_metadata({"tokens": str(len(embedding) + 1), "embedding": _digest(embedding)})
    sentences = [{"section": section, "text": text} for section in SECTIONS for text in read_sentences(section)]
    for name, table in ((TRACES, pa.Table.from_pylist(rows, schema)), (SENTENCES, pa.Table.from_pylist(sentences))):
        with replacing(folder / name) as temporary:
            pq.write_table(table, temporary, compression="zstd", compression_level=19)
    write_checksums(folder)
    return sum("accepted" in row for row in rows)


def _rows(unit: Unit, rounds: Sequence[JudgedRound]) -> Iterator[dict[str, object]]:
    said = {"method": unit.condition.name, "voice": unit.utterance.voice, "text": unit.utterance.text, "seed": unit.seed}
    for number, (drafted, p, q, coins, verdict) in enumerate(rounds):
        for i, token in enumerate(drafted.tolist()):
            row = said | {"round": number, "position": i, "token": token, "p": p[i, token], "q": q[i, token]}
            row |= {"coin": coins.accept[i], "group_coin": coins.group[i]}
            if i < len(verdict.tests):
                test = verdict.tests[i]
                names = ("accepted", "mass_p", "mass_q", "ratio", "group", "group_size")
                row |= {name: getattr(test, name) for name in names}
            if unit.condition.name == FULL:
                row |= dict(zip(LISTS, (*_likeliest(p[i]), *_likeliest(q[i])), strict=True))
            yield row


def _likeliest(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.argpartition(-probs, MOST)[:MOST] if len(probs) > MOST else np.arange(len(probs))
    tokens = tokens[np.argsort(-probs[tokens], kind="stable")]
    count = 1 + int(np.searchsorted(probs[tokens].cumsum(dtype=np.float64), MASS))
    return tokens[:count].astype(np.int32), probs[tokens[:count]].astype(np.float16)


@dataclass(frozen=True)
class Replay:
    """The figures of a rule, as serving engines count them.

    counts: drafted, accepted and tested tokens of each round, `[R, 3]`. tests: every test, with the entropy of the target's
    distribution there in nats; empty for what is not replayed.
    """

    counts: np.ndarray
    tests: Sequence[tuple[Test, float]] = ()

    def by(self, kind: str, codec: Codec | None = None) -> list[tuple[str, int, float]]:
        """Return a name, the number of tests, and the share accepted, of each quarter of the tests by the "entropy" of the
        target or the "group size" of the drawn group, or of each "sound" of the drafted token, for which `codec` is asked."""
        passed = np.array([test.accepted for test, _ in self.tests])
        if kind == "sound" and codec:
            tokens = sorted({test.token for test, _ in self.tests if test.token < codec.codebook_size})
            sounds = dict(zip(tokens, sounds_like(codec, tokens), strict=True))
            heard = np.array([sounds.get(test.token, "the end of speech") for test, _ in self.tests])
            return [(str(name), int((heard == name).sum()), float(passed[heard == name].mean())) for name in np.unique(heard)]
        if kind not in PARTS:
            raise InputError("by", kind, "one of " + ", ".join(PARTS))
        values = np.array([h if kind == "entropy" else test.group_size for test, h in self.tests])
        quarters = filter(len, np.array_split(np.argsort(values, kind="stable"), 4))
        return [(f"{values[q[0]]:.3g} to {values[q[-1]]:.3g}", len(q), float(passed[q].mean())) for q in quarters]

    @property
    def rounds(self) -> int:
        return len(self.counts)

    @property
    def accepted_at(self) -> list[int]:
        """Accepted tokens by position in the draft."""
        return [int((self.counts[:, 1] > i).sum()) for i in range(self.counts[:, 0].max(initial=0))]

    @property
    def tested_at(self) -> list[int]:
        """Tested tokens by position in the draft; all before a tested one had passed."""
        return [int((self.counts[:, 2] > i).sum()) for i in range(self.counts[:, 0].max(initial=0))]

    @property
    def acceptance_rate(self) -> float:
        """Accepted of drafted tokens."""
        drafted, accepted, _ = self.counts.sum(0)
        return float(accepted / max(1, drafted))

    @property
    def acceptance_of_tested(self) -> float:
        return sum(self.accepted_at) / max(1, sum(self.tested_at))

    @property
    def acceptance_length(self) -> float:
        """Tokens that a call of the target brings, its own one included."""
        return 1 + sum(self.accepted_at) / max(1, self.rounds)


@dataclass(frozen=True, eq=False)
class Traces:
    """The recorded tests: `rows` of `SCHEMA`, over a `vocabulary` of tokens. embedding: a digest of the voice's."""

    rows: pa.Table
    vocabulary: int
    embedding: str

    @classmethod
    def read(cls, folder: Path = SHIPPED) -> "Traces":
        """Read what `write_traces` wrote; raise AssetError where it is missing, damaged or something else."""
        check_checksums(folder)
        try:
            rows = pq.read_table(folder / TRACES)
            facts = rows.schema.metadata
            return cls(rows.select(SCHEMA.names), int(facts[b"tokens"]), facts[b"embedding"].decode())
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise AssetError(f"The traces in {folder} are missing or damaged ({first_line(error)}).") from error

    def neighbours(self, voice: Path = EMBEDDED) -> Neighbours:
        """Return the lists of similar tokens, from the embedding in a voice's folder; raise InputError for another voice."""
        symbols = json.loads((voice / "voice.json").read_text(encoding="utf-8"))["symbols"]
        usage = read_tensors(voice / "usage.safetensors")["usage"]
        first = PhonemeReader(tuple(symbols), ()).first_code
        embedding = read_tensors(voice / "target" / SINGLE)[EMBEDDING][first : first + len(usage)].float()
        if _digest(embedding) != self.embedding:
            raise InputError("traces", "of another voice", "those of the voice whose similar tokens a rule looks at")
        floor = affordable_floor(embedding, bounds("theta").low, usage > 0)
        return load_or_build_neighbours(embedding, floor, usage > 0, CACHE)

    @property
    def methods(self) -> list[str]:
        return self.rows["method"].unique().to_pylist()

    def rounds(self, method: str) -> Iterator[list[dict[str, object]]]:
        """Yield the rows of each round of a method; raise InputError for one that was not recorded."""
        if method not in self.methods:
            raise InputError("method", method, "one of " + ", ".join(self.methods))
        chosen = (row for row in self.rows.to_pylist() if row["method"] == method)
        for _, rows in groupby(chosen, lambda row: (row["utterance"], row["seed"], row["round"])):
            yield list(rows)

    def recorded(self, method: str) -> Replay:
        """Return the figures of a method as it ran."""
        accepted = [
            ([row["token"] for row in rows], sum(bool(row["accepted"]) for row in rows)) for rows in self.rounds(method)
        ]
        return Replay(np.array([self._counts(*each) for each in accepted]))

    def replay(self, rule: Rule) -> Replay:
        """Judge every round of SD by `rule`, with the recorded coins."""
        others = Coins.draw(0, torch.Generator().manual_seed(0))
        counts, tests = [], []
        for rows in self.rounds(FULL):
            tokens = [row["token"] for row in rows]
            p, q = (np.stack([self._dense(row, kind) for row in rows]) for kind in ("draft", "target"))
            accept, group = (np.array([row[name] for row in rows]) for name in ("coin", "group_coin"))
            after = np.concatenate([q, q[-1:]])  # the bonus token, which is of no interest here, comes from the last row
            coins = replace(others, accept=accept, group=group)
            verdict = rule(torch.tensor(tokens), torch.from_numpy(p), torch.from_numpy(after), coins)
            counts.append(self._counts(tokens, verdict.accepted))
            tests += zip(verdict.tests[: counts[-1][2]], map(entropy, q), strict=False)
        return Replay(np.array(counts), tests)

    def _counts(self, tokens: list[int], accepted: int) -> tuple[int, int, int]:
        """Count drafted, accepted and tested tokens of a round, which an accepted end of speech ends."""
        end = self.vocabulary - 1
        if end in tokens[:accepted]:
            return len(tokens), tokens.index(end) + 1, tokens.index(end) + 1
        return len(tokens), accepted, min(len(tokens), accepted + 1)

    def _dense(self, row: Mapping[str, object], kind: str) -> np.ndarray:
        """Return a distribution `[V]` as far as it is known; the drafted token's probability is exact."""
        probs = np.full(self.vocabulary, np.nan)
        probs[row[f"{kind}_tokens"]] = row[f"{kind}_probs"]
        probs[row["token"]] = row["p" if kind == "draft" else "q"]
        unknown = np.isnan(probs)
        probs[unknown] = max(0.0, 1 - np.nansum(probs)) / max(1, np.count_nonzero(unknown))
        return probs


def _digest(embedding: Tensor) -> str:
    return hashlib.sha256(embedding.contiguous().numpy().tobytes()).hexdigest()[:16]
