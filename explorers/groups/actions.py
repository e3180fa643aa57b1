"""What the map shows: a token's group and its overlaps, why two tokens share a group, an utterance's path. Knows no gradio."""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from torch import Tensor

from explorers.session import Session, TakeView
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.library import GroupLibrary, theta_for
from pcg.groups.neighbours import Neighbours
from pcg.groups.phones import CLASSES, PHONES, UNKNOWN
from pcg.settings import METHODS, bounds

# What one answer may list; the totals stand beside it.
MOST_NEIGHBOURS, MOST_OVERLAPS, MOST_LINKS = 3000, 300, 50
THETA_DIGITS = 4


@dataclass(frozen=True)
class Overlap:
    """Another group that shares members with the token's own. `centre` is the lowest of its centres, and `similarity` that of
    the centre to the token, None where it does not exceed the floor of the neighbour lists."""

    group: int
    centre: int
    size: int
    shared: int
    similarity: float | None
    holds_token: bool


@dataclass(frozen=True)
class TokenGroup:
    """The group around one token. The first `size` of `neighbours` are its members, the token itself first; those after them
    are below theta, down to `floor`. `count` is N(t); `overlapping` counts the groups of which `overlaps` are the closest."""

    token: int
    theta: float
    similarity: str
    floor: float
    group: int
    size: int
    count: int
    usage: int
    neighbours: tuple[int, ...]
    similarities: tuple[float, ...]
    overlapping: int
    overlaps: tuple[Overlap, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Link:
    """A centre whose group holds both tokens of a pair, and how similar it is to each."""

    centre: int
    group: int
    size: int
    to_first: float
    to_second: float


@dataclass(frozen=True)
class TokenPair:
    """Why two tokens do or do not share a group. `similarity` is None where it does not exceed `floor`.

    They share a group exactly as long as theta < `meeting`, the largest min(s(c, first), s(c, second)) over all centres c (None
    if none is near both), reached at `via`. `shared` counts the groups that hold both; `links` are centres, closest first.
    """

    first: int
    second: int
    theta: float
    kind: str
    floor: float
    similarity: float | None
    meeting: float | None
    via: int | None
    shared: int
    links: tuple[Link, ...]

    def sentences(self) -> tuple[str, ...]:
        """The same in words, the verdict first."""
        return (self._verdict(), self._about_similarity(), *self._about_third(), self._about_theta())

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "sentences": self.sentences()}

    def _verdict(self) -> str:
        if not self.shared:
            return f"Apart at theta {self.theta:.2f}: no group holds both."
        holding = "1 group holds" if self.shared == 1 else f"{self.shared:,} groups hold"
        return f"Together at theta {self.theta:.2f}: {holding} both."

    def _about_similarity(self) -> str:
        if self.similarity is None:
            return f"Their similarity is not above {self.floor:g}, where the neighbour lists end."
        distance = f"Their similarity is {self.similarity:.3f}, {abs(self.similarity - self.theta):.3f}"
        if self.similarity > self.theta:
            return f"{distance} above theta: each is in the other's group."
        return f"{distance} below theta: neither is in the other's group."

    def _about_third(self) -> tuple[str, ...]:
        if not self.links or (self.similarity or -1) > self.theta:
            return ()
        link = self.links[0]
        return (f"Token {link.centre} is near both ({link.to_first:.3f} and {link.to_second:.3f}), so its group holds them.",)

    def _about_theta(self) -> str:
        if self.meeting is None:
            return f"No theta from {self.floor:g} on brings them together."
        if self.shared:
            return f"They part when theta rises by {self.meeting - self.theta:.3f}, to {self.meeting:.3f}."
        where = "as neighbours" if self.via in (self.first, self.second) else f"in the group of token {self.via}"
        return f"They meet when theta falls by more than {self.theta - self.meeting:.3f}, below {self.meeting:.3f}, {where}."


def check_token(field: str, value: object, codes: int) -> int:
    """`value` as a token number below `codes`; InputError for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not 0 <= value < codes or value != int(value):
        raise InputError(field, value, f"a whole number from 0 to {codes - 1}")
    return int(value)


def groups_at(library: GroupLibrary, theta: float, similarity: str) -> Groups:
    """The groups of a view; InputError where theta is out of range, or the similarity unknown."""
    bounds("theta").check("theta", theta)
    return library.groups(theta, similarity)


def equal_theta(library: GroupLibrary, theta: float, before: str, after: str) -> float:
    """The theta at which groups by the similarity `after` are as large, in the mean, as those at `theta` by `before`."""
    bounds("theta").check("theta", theta)
    size, lists = library.neighbours(before).mean_size_at(theta), library.neighbours(after)
    allowed = bounds("theta")
    found = theta_for(lists, min(size, lists.mean_size_at(lists.floor)))
    return round(min(max(found, allowed.low), allowed.high), THETA_DIGITS)


def token_group(library: GroupLibrary, usage: Tensor, token: object, theta: float, similarity: str) -> TokenGroup:
    """Everything the map shows of one token; bad input raises InputError."""
    groups, lists = groups_at(library, theta, similarity), library.neighbours(similarity)
    token = check_token("token", token, groups.vocabulary - 1)
    neighbours, values = (entries.numpy() for entries in lists.of(token))
    group = int(groups.group_of_centre[token])
    overlapping, overlaps = _overlaps(groups, token, group, neighbours, values)
    return TokenGroup(
        token=token,
        theta=theta,
        similarity=similarity,
        floor=lists.floor,
        group=group,
        size=groups.size(group),
        count=int(groups.count[token]),
        usage=int(usage[token]),
        neighbours=tuple(neighbours[:MOST_NEIGHBOURS].tolist()),
        similarities=_rounded(values[:MOST_NEIGHBOURS]),
        overlapping=overlapping,
        overlaps=overlaps,
    )


def token_pair(library: GroupLibrary, first: object, second: object, theta: float, similarity: str) -> TokenPair:
    """Why `first` and `second` are, or are not, in one group; bad input raises InputError."""
    groups, lists = groups_at(library, theta, similarity), library.neighbours(similarity)
    codes = groups.vocabulary - 1
    first, second = check_token("first token", first, codes), check_token("second token", second, codes)
    if first == second:
        raise InputError("second token", second, f"another token than {first}")
    centres, to_first, to_second = _near_both(lists, first, second)
    # A token is in its own group whatever theta, so only its similarity to the other one counts.
    nearest = np.minimum(np.where(centres == first, np.inf, to_first), np.where(centres == second, np.inf, to_second))
    order = np.lexsort((centres, -nearest))
    holding = order[nearest[order] > theta]
    numbers = groups.group_of_centre.numpy()[centres[holding]]
    distinct = np.sort(np.unique(numbers, return_index=True)[1])
    links = tuple(
        Link(int(centres[i]), int(k), groups.size(int(k)), *_rounded((to_first[i], to_second[i])))
        for i, k in zip(holding[distinct[:MOST_LINKS]], numbers[distinct[:MOST_LINKS]], strict=True)
    )
    direct = to_second[centres == first]
    return TokenPair(
        first=first,
        second=second,
        theta=theta,
        kind=similarity,
        floor=lists.floor,
        similarity=_rounded(direct)[0] if len(direct) else None,
        meeting=_rounded(nearest[order[:1]])[0] if len(order) else None,
        via=int(centres[order[0]]) if len(order) else None,
        shared=len(distinct),
        links=links,
    )


def group_sizes(groups: Groups) -> str:
    """|G(t)| and |G(t)| - N(t) for every code t, packed. The difference packs better than N(t), as it mostly is 0."""
    sizes = groups.sizes[groups.group_of_centre][:-1].numpy()
    return pack(sizes, sizes - groups.count[:-1].numpy().astype(np.int64))


def pack(*columns: np.ndarray) -> str:
    """Columns of whole numbers below 2^32 as text: base64 of the deflated bytes, all lowest ones of a column first."""
    planes = [column.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes() for column in columns]
    return base64.b64encode(zlib.compress(b"".join(planes))).decode("ascii")


def phone_map(phones: Tensor) -> dict[str, object]:
    """The phone of every code, packed; the names of phones by their numbers, and of the class of each (`pcg.groups.phones`)."""
    names = [*PHONES, UNKNOWN]
    classes = [next((name for name, of in CLASSES.items() if phone in of), UNKNOWN) for phone in names]
    return {"codes": pack(phones.numpy()), "names": names, "classes": classes}


def utterances(session: Session, codes: int) -> dict[str, dict[str, list[int]]]:
    """The session's takes, by method, PCG's first: `tokens` in time, and its drafts, tested one by one, that were `accepted`
    and `rejected`. One that was taken in hand again comes before all, and stands for its method."""
    readings = {method: session.cards[method].reading for method in reversed(METHODS) if method in session.cards}
    if session.held is not None:
        held = session.kept(session.held).shown.reading
        readings = {held.method: held} | readings | {held.method: held}
    return {method: _utterance(reading, codes) for method, reading in readings.items()}


def _utterance(reading: TakeView, codes: int) -> dict[str, list[int]]:
    # The end of speech may be drafted, but has no place on the map.
    return {
        "tokens": [token for token in reading.tokens if token < codes],
        "accepted": [token for token, accepted in reading.drafts if accepted and token < codes],
        "rejected": [token for token, accepted in reading.drafts if not accepted and token < codes],
    }


def _near_both(lists: Neighbours, first: int, second: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tokens near both, and their similarities to each."""
    (of_first, to_first), (of_second, to_second) = ([t.numpy() for t in lists.of(token)] for token in (first, second))
    centres, i, j = np.intersect1d(of_first, of_second, assume_unique=True, return_indices=True)
    return centres, to_first[i].astype(np.float64), to_second[j].astype(np.float64)


def _overlaps(
    groups: Groups, token: int, own: int, neighbours: np.ndarray, values: np.ndarray
) -> tuple[int, tuple[Overlap, ...]]:
    """How many other groups share a member with group `own`, and those that share most, nearest centre first among equals."""
    # By centres, each of which stands for its group: no set has to be made of them for every member.
    holders = np.concatenate([groups.holders.of(member) for member in groups.members_of(own).tolist()])
    centres = groups.first_centres
    shared = np.bincount(holders, minlength=groups.vocabulary)[centres]
    shared[own] = 0
    similarity = np.full(groups.vocabulary, np.nan)
    similarity[neighbours] = values
    found = shared.nonzero()[0]
    # nan sorts last, where what is below the floor belongs.
    chosen = found[np.lexsort((found, -similarity[centres[found]], -shared[found]))[:MOST_OVERLAPS]]
    holding = set(groups.groups_of(token).tolist())
    overlaps = (
        Overlap(k, int(centres[k]), groups.size(k), int(shared[k]), _or_none(similarity[centres[k]]), k in holding)
        for k in chosen.tolist()
    )
    return len(found), tuple(overlaps)


def _rounded(values: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    # Six digits distinguish any two float16, and these from any theta of two digits.
    return tuple(round(float(value), 6) for value in values)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else _rounded([value])[0]
