"""A whole round of speculative decoding as one tensor program of fixed shapes: draft, verify, judge, commit.

On a GPU it is recorded once as a CUDA graph and replayed. A CPU runs the same program as it is, which is how it is tested.

Nothing is rolled back: `length` says how many ids of a row are true, and a slot behind them is written again before it is read.
The host launches `BLOCK` rounds, and then reads what they decided in one copy. It sees the end of speech that late, and cuts
off what was played behind it. Coins are drawn on the host, from the same generators as in the loop of `speculative.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import zip_longest
from time import perf_counter

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pcg.decode.device_rules import CoinBlock, DeviceRule, draw_each, has_program, on_device
from pcg.decode.runners import AnyDraft
from pcg.decode.sequence import DecodingSequence
from pcg.decode.speculative import Request, RunningBatch, cut_round, decode_on_host, sequence_of
from pcg.models.feature_draft import FeatureDraft
from pcg.models.llama import DecodingLlama, run_layer, visible
from pcg.rules import Coins, Test, Verdict
from pcg.sampling import Plain, truncated
from pcg.take import Round

BLOCK = 8
"""Rounds between two looks of the host: the wait for one is then below 1 % of their time."""
SMALLEST = 256
"""Slots of the caches that a pass reads at least; it reads powers of two."""
BEYOND = 32
"""Ids behind a row's limit that a round may still write."""
PER_ROUND, PER_POSITION = 5, 8
"""Numbers that a round and each of its positions leave for the host."""


@dataclass(frozen=True)
class Program:
    """What a recorded round depends on beside the models: rule, lookahead (0: AR), truncation."""

    rule: DeviceRule
    lookahead: int
    top_k: int
    top_p: float


def fits(requests: Sequence[Request]) -> bool:
    """Return whether one program decodes these requests: one rule with a program, lookahead and truncation, no memory."""
    first = requests[0]
    plain = all(isinstance(r.sampler, Plain) and not r.sampler.remembers for r in requests)
    if not plain or any((r.rule, r.lookahead) != (first.rule, first.lookahead) for r in requests):
        return False
    alike = len({(r.sampler.top_k, r.sampler.top_p) for r in requests}) == 1
    return alike and has_program(first.rule) and all(len(r.prompt.ids) >= 2 + first.lookahead for r in requests)


class DeviceLoop:
    """Caches and state of `rows` utterances of up to `capacity` ids each, and the rounds that were recorded on them.

    ids `[B, capacity]` are the model's; temperature `[B, 1]`; room `[B]`: tokens that a row may still emit, 0 after its end of
    speech; clock `[1]`: which round of the block comes next; report `[BLOCK, B, ...]`: what each round decided.
    """

    def __init__(self, target: DecodingLlama, draft: AnyDraft | None, rows: int, capacity: int) -> None:
        self.target, self.draft, self.rows, self.capacity = target, draft, rows, capacity
        tapped = draft.tapped if isinstance(draft, FeatureDraft) else ()
        self._cache = target.cache(rows, capacity, tapped)
        self._draft_cache = draft.cache(rows, capacity) if draft else None
        device = target.device
        self._rotary = target.rotary(torch.zeros(rows, capacity, device=device))
        self._ids = torch.zeros(rows, capacity, dtype=torch.int64, device=device)
        self._ids_of = target.vocabulary.model_ids().to(device)
        self._length, self._room = (torch.ones(rows, dtype=torch.int64, device=device) for _ in range(2))
        self._temperature = torch.ones(rows, 1, device=device)
        self._clock = torch.zeros(1, dtype=torch.int64, device=device)
        self._every = torch.arange(rows, device=device)[:, None]
        self._on_device = lru_cache(maxsize=4)(partial(on_device, device=device))
        self._recorded = lru_cache(maxsize=16)(self._record)

    def rounds(self, requests: Sequence[Request], longest: int) -> Iterator[dict[int, Round]]:
        """Yield a Round by row for every target call, `BLOCK` calls at a time.

        Args:
            requests: one for each row, together such as `fits` allows, whose prompts were read.
            longest: the ids of the longest prompt.
        """
        sequences = [sequence_of(row, request) for row, request in enumerate(requests)]
        while speaking := [sequence for sequence in sequences if sequence.speaking]:
            yield from self.block(speaking, longest + max(len(sequence.emitted) for sequence in speaking))

    @torch.inference_mode()
    def block(self, sequences: Sequence[DecodingSequence], longest: int, resting: Sequence[int] = ()) -> list[dict[int, Round]]:
        """Play `BLOCK` rounds of `sequences`, which `fits` allows together; commit and return them, by row.

        Args:
            longest: the ids that the longest row holds, `resting` ones included.
            resting: rows that go on later, by other programs.
        """
        begun, first = perf_counter(), sequences[0]
        lookahead = first.lookahead
        program = Program(self._on_device(first.rule), lookahead, first.sampler.top_k, first.sampler.top_p)
        starts = [sequence.generator.get_state() for sequence in sequences]
        coins = [{sequence.row: _coins(sequence) for sequence in sequences} for _ in range(BLOCK)]
        none = Coins.draw(lookahead, torch.Generator())
        rows = torch.tensor(resting, dtype=torch.int64, device=self._room.device)
        room = self._room[rows]
        self._room[rows] = 0
        table = CoinBlock.of([[made.get(row, none) for row in range(self.rows)] for made in coins])
        report = self._play(program, table, min(longest + BLOCK * (lookahead + 1), self.capacity))
        self._room[rows] = room
        cost = 1e3 * (perf_counter() - begun) / BLOCK
        played: list[dict[int, Round]] = []
        for decided, made in zip(report.tolist(), coins, strict=True):
            rounds: dict[int, Round] = {}
            for sequence in (s for s in sequences if s.speaking):
                verdict, drafted = _verdict(decided[sequence.row], made[sequence.row], lookahead)
                left = sequence.limit - len(sequence.emitted)
                round_ = cut_round(verdict, drafted, self.target.vocabulary.eos, left, {"verify_ms": cost})
                sequence.commit(round_, sequence.sampler)
                rounds[sequence.row] = round_
            played += [rounds] if rounds else []
        for sequence, start in zip(sequences, starts, strict=True):
            count = sum(sequence.row in rounds for rounds in played)
            if count < BLOCK:  # the coins of rounds that were cut off are drawn by what comes next
                sequence.generator.set_state(start)
                for _ in range(count):
                    _coins(sequence)
        return played

    def prefill(self, requests: Sequence[Request]) -> int:
        """Read the prompts but for their last ids; return the length of the longest."""
        if len(requests) != self.rows or any(r.positions + BEYOND > self.capacity for r in requests):
            raise ValueError(f"{len(requests)} requests do not fit into {self.rows} rows of {self.capacity} ids")
        for row, request in enumerate(requests):
            self.put(row, request)
        return max(len(request.prompt.ids) for request in requests)

    @torch.inference_mode()
    def put(self, row: int, request: Request) -> None:
        """Read the prompt of a request, but for its last id, into a row."""
        prompt, count = request.prompt, len(request.prompt.ids)
        self._ids[row, :count] = prompt.ids.to(self._ids)
        later = prompt.next_position + torch.arange(self.capacity - count)
        positions = torch.cat([prompt.positions, later]).to(self.target.device)
        for table, new in zip(self._rotary, self.target.rotary(positions), strict=True):
            table[row] = new
        self._length[row], self._room[row], self._temperature[row] = count, request.limit, request.sampler.temperature
        slots, one = torch.arange(count - 1, device=self._ids.device)[None], torch.tensor([row], device=self._ids.device)
        tables = tuple(table[row : row + 1, : count - 1] for table in self._rotary)
        start, ids = torch.zeros_like(one), self._ids[row : row + 1, : count - 1]
        self.target.run(ids, tables, self._cache, start, count - 1, 1, one)
        if isinstance(self.draft, FeatureDraft):
            inputs = self.draft.behind_target(ids, self._taps(one[:, None], slots))
            run_layer(self.draft, 0, inputs, tables, self._draft_cache, slots, visible(slots, count - 1), one)
        elif self.draft:
            self.draft.run(ids, tables, self._draft_cache, start, count - 1, 1, one)

    def _play(self, program: Program, coins: CoinBlock, longest: int) -> Tensor:
        """Play `BLOCK` rounds, which read no more than `longest` slots; return the report `[BLOCK, B, ...]` on the host."""
        width = SMALLEST
        while width < longest:
            width *= 2
        width = min(width, self.capacity)
        tables, report, graph = self._recorded(program, width)
        for table, new in zip(tables, coins, strict=True):
            table.copy_(new)
        self._clock.zero_()
        for _ in range(BLOCK):
            if graph is None:
                self._round(program, width, tables, report)
            else:
                graph.replay()
        return report.cpu()

    def _record(self, program: Program, width: int) -> tuple[CoinBlock, Tensor, "torch.cuda.CUDAGraph | None"]:
        """Make the tables that a round reads and writes, and on a GPU its graph."""
        device = self._ids.device
        none = CoinBlock.of([[Coins.draw(program.lookahead, torch.Generator())] * self.rows] * BLOCK)
        tables = CoinBlock(*(table.to(device) for table in none))
        size = PER_ROUND + PER_POSITION * program.lookahead
        report = torch.zeros(BLOCK, self.rows, size, dtype=torch.float64, device=device)
        if device.type != "cuda":
            return tables, report, None
        kept = [state.clone() for state in (self._ids, self._length, self._room, self._clock)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries pick kernels and allocate on first use, which a recording must not see
            for _ in range(2):
                self._round(program, width, tables, report)
                self._clock.zero_()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._round(program, width, tables, report)
        for state, before in zip((self._ids, self._length, self._room, self._clock), kept, strict=True):
            state.copy_(before)
        return tables, report, graph

    def _round(self, program: Program, width: int, tables: CoinBlock, report: Tensor) -> None:
        """Play one round of every row, on tensors alone."""
        coins, lookahead = tables.at(self._clock), program.lookahead
        drafted, p = self._drafted(program, width, coins.draft)
        slots = self._length[:, None] - 1 + torch.arange(lookahead + 1, device=self._ids.device)
        ids = torch.cat([self._ids.gather(1, slots[:, :1]), self._ids_of[drafted]], 1)
        logits = self.target.run(ids, self._tables(slots), self._cache, slots[:, 0], width, lookahead + 1)
        q = self._softened(program, logits)
        verdicts = program.rule(drafted, p, q, coins)
        # Commit: the accepted tokens and the next one.
        accepted, next_token = verdicts.accepted[:, None], verdicts.next_token[:, None]
        emitted = torch.cat([drafted, next_token], 1).scatter(1, accepted, next_token)
        counted = torch.arange(lookahead + 1, device=slots.device) <= accepted
        ended = ((emitted == self.target.vocabulary.eos) & counted).any(1)
        self._ids.scatter_(1, (slots + 1).clamp(max=self.capacity - 1), self._ids_of[emitted])
        self._length += (verdicts.accepted + 1) * (self._room > 0)
        self._room.copy_(torch.where(ended, 0, (self._room - verdicts.accepted - 1).clamp(min=0)))
        chances = [probs.gather(-1, drafted[..., None])[..., 0] for probs in (p, q[:, :-1])]
        by_position = torch.stack([each.double() for each in (drafted, *chances, *verdicts[5:])], -1)
        of_round = torch.stack([each.double() for each in verdicts[:5]], -1)
        report.index_copy_(0, self._clock, torch.cat([of_round, by_position.flatten(1)], 1)[None])
        self._clock += 1

    def parts(self, program: Program) -> dict[str, Callable[[], object]]:
        """Return the work of a round and of each of its parts, to be timed behind the prompts that were read."""
        tables, report, _ = self._record(program, SMALLEST)
        coins = tables.at(self._clock)
        drafted, p = self._drafted(program, SMALLEST, coins.draft)
        slots = self._length[:, None] - 1 + torch.arange(program.lookahead + 1, device=self._ids.device)
        ids = torch.cat([self._ids.gather(1, slots[:, :1]), self._ids_of[drafted]], 1)

        def verify() -> Tensor:
            tables, last = self._tables(slots), program.lookahead + 1
            return self._softened(program, self.target.run(ids, tables, self._cache, slots[:, 0], SMALLEST, last))

        def play() -> None:
            self._clock.zero_()
            self._round(program, SMALLEST, tables, report)

        q = verify()
        draft = partial(self._drafted, program, SMALLEST, coins.draft)
        return {"draft": draft, "target": verify, "rule": partial(program.rule, drafted, p, q, coins), "round": play}

    def _drafted(self, program: Program, width: int, coins: Tensor) -> tuple[Tensor, Tensor]:
        """Draft a token by each of `coins [B, L]`: tokens `[B, L]` and their probabilities `[B, L, V]`."""
        if not program.lookahead:
            empty = self._length.new_empty(self.rows, 0)
            return empty, torch.empty(self.rows, 0, self.target.vocabulary.size, device=empty.device)
        # The newest tokens are read once more, as many as a round can have emitted, so that every round has the same shape.
        is_feature = isinstance(self.draft, FeatureDraft)
        unread = program.lookahead + 1 if is_feature else 2
        slots = (self._length[:, None] + torch.arange(-unread, 0, device=self._ids.device)).clamp(min=0)
        ids, tokens, probs, states = self._ids.gather(1, slots), [], [], None
        for step in range(program.lookahead):
            tables = self._tables(slots)
            if is_feature:
                if states is None:
                    x = self.draft.behind_target(ids, self._taps(self._every, slots))
                else:
                    x = self.draft.behind_itself(ids, states)
                cache, mask = self._draft_cache, visible(slots, width)
                states = run_layer(self.draft, 0, x, tables, cache, slots, mask)[:, -1:]
                logits = self.draft.logits(states)
            else:
                logits = self.draft.run(ids, tables, self._draft_cache, slots[:, 0], width, 1)
            probs.append(self._softened(program, logits)[:, 0])
            tokens.append(draw_each(probs[-1], coins[:, step : step + 1]))
            ids, slots = self._ids_of[tokens[-1]], slots[:, -1:] + 1
        return torch.cat(tokens, 1), torch.stack(probs, 1)

    def _softened(self, program: Program, logits: Tensor) -> Tensor:
        """Probabilities `[B, N, V]`, float32, as `pcg.sampling.Plain` computes them."""
        heat = self._temperature[..., None]
        greedy = one_hot(logits.argmax(-1), logits.shape[-1]).float()
        probs = torch.where(heat > 0, (logits.float() / heat.clamp(min=1e-6)).softmax(-1), greedy)
        plain = program.top_k == 0 and program.top_p >= 1
        return probs if plain else truncated(probs, program.top_k, program.top_p)

    def _tables(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        return self._rotary[0][self._every, slots], self._rotary[1][self._every, slots]

    def _taps(self, rows: Tensor, slots: Tensor) -> Tensor:
        """Return the target's hidden states before each of `slots [R, T]`, `[R, T, layers, D]`; nothing is before slot 0."""
        taps = self._cache.taps[rows, (slots - 1).clamp(min=0)]
        return taps * (slots > 0)[..., None, None]


class DevicePool:
    """Idle loops, with all that was recorded on them. A loop is lent to one borrower at a time."""

    def __init__(self) -> None:
        self._idle: list[DeviceLoop] = []

    def decode(self, target: DecodingLlama, draft: AnyDraft | None, requests: Sequence[Request]) -> Iterator[dict[int, Round]]:
        """Read the prompts of `requests` on an idle loop that is large enough, or on a new one; return its rounds."""
        needed = max(request.positions for request in requests) + BEYOND
        for loop in self._idle:
            if (loop.target, loop.draft, loop.rows) == (target, draft, len(requests)) and loop.capacity >= needed:
                self._idle.remove(loop)
                break
        else:
            loop = DeviceLoop(target, draft, len(requests), -(-needed // SMALLEST) * SMALLEST)
        return self._lent(loop, requests, loop.prefill(requests))

    def _lent(self, loop: DeviceLoop, requests: Sequence[Request], longest: int) -> Iterator[dict[int, Round]]:
        try:
            yield from loop.rounds(requests, longest)
        finally:
            self._idle.append(loop)


def decode(
    target: DecodingLlama, draft: AnyDraft | None, requests: Sequence[Request], pool: DevicePool | None
) -> Iterator[dict[int, Round]]:
    """Read the prompts of `requests`; return their rounds, in fixed shapes where there is a `pool` and they fit."""
    if pool and fits(requests):
        return pool.decode(target, draft if requests[0].rule else None, requests)
    return decode_on_host(target, draft, requests)


class DeviceBatch(RunningBatch):
    """A `RunningBatch` of rounds of fixed shapes. Rows of one program play `BLOCK` rounds while the others rest, and a request
    that joins waits for the end of a block. What has no program is played by the loop of the host."""

    def __init__(self, target: DecodingLlama, draft: AnyDraft | None, rows: int, positions: int) -> None:
        super().__init__(target, draft, rows, positions)
        self._loop = DeviceLoop(target, draft, rows, -(-(positions + BEYOND) // SMALLEST) * SMALLEST)
        self._prompts: dict[int, int] = {}
        self._played: list[dict[int, Round]] = []

    def join(self, request: Request) -> int:
        if not fits([request]):
            return super().join(request)
        self.check(request)
        row = self._rows.index(None)
        self._loop.put(row, request)
        self._rows[row], self._prompts[row] = sequence_of(row, request), len(request.prompt.ids)
        return row

    def leave(self, row: int) -> None:
        super().leave(row)
        self._prompts.pop(row, None)
        for rounds in self._played:
            rounds.pop(row, None)

    def step(self, only: int | None = None) -> dict[int, Round | Exception]:
        played = self._step([each for each in self._rows if each and each.row not in self._prompts])
        rounds, *self._played = [*filter(None, self._played)] or self._blocks() or [{}]
        for row, round_ in rounds.items():
            played[row] = round_
            if not self._rows[row].speaking and not any(row in later for later in self._played):
                self.leave(row)
        return played

    def _blocks(self) -> list[dict[int, Round]]:
        """Play a block of each program; return their rounds side by side."""
        playing = [self._rows[row] for row in self._prompts]
        programs: dict[object, list[DecodingSequence]] = {}
        for each in playing:
            programs.setdefault((each.rule, each.lookahead, each.sampler.top_k, each.sampler.top_p), []).append(each)
        longest = max((self._prompts[each.row] + len(each.emitted) for each in playing), default=0)
        blocks = []
        try:
            for alike in programs.values():
                resting = [each.row for each in playing if each not in alike]
                blocks.append(self._loop.block(alike, longest, resting))
        except Exception:
            self._rows, self._prompts = [None] * len(self._rows), {}
            raise
        return [{row: r for rounds in side for row, r in rounds.items()} for side in zip_longest(*blocks, fillvalue={})]


def _coins(sequence: DecodingSequence) -> Coins:
    """Draw what the loop on the host would draw for a round."""
    if sequence.rule:
        return Coins.draw(sequence.lookahead, sequence.generator)
    coin = float(torch.rand(1, generator=sequence.generator, dtype=torch.float64))
    return replace(Coins.draw(0, torch.Generator()), bonus=coin)


def _verdict(row: list[float], coins: Coins, lookahead: int) -> tuple[Verdict, list[int]]:
    """Read a round's report: its verdict and the drafted tokens."""
    accepted, next_token, trials, next_group, next_size = map(int, row[:PER_ROUND])
    positions = [row[PER_ROUND + n * PER_POSITION :][:PER_POSITION] for n in range(lookahead)]
    drafted = [int(position[0]) for position in positions]
    tests = tuple(
        Test(int(token), p, q, mass_p, mass_q, ratio, coin, coin < ratio, int(group), int(size))
        for (token, p, q, mass_p, mass_q, ratio, group, size), coin in zip(positions, coins.accept.tolist(), strict=True)
    )
    kind = "target" if not lookahead else "bonus" if accepted == lookahead else "resampled"
    return Verdict(accepted, next_token, kind, tests[: accepted + 1], trials, next_group, next_size), drafted
