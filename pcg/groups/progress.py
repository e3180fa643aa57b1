"""A bar with rate and time left for a long job of the command line."""

from tqdm import tqdm

from pcg.groups.pairs.search import Progress


def bar(label: str) -> Progress:
    """A `Progress` that moves a bar on standard error; where that is no terminal it is silent."""
    shown = tqdm(desc=label, disable=None)

    def progress(done: int, total: int) -> None:
        if done < shown.n:
            shown.reset()
        shown.total = total
        shown.update(done - shown.n)
        if done >= total:
            shown.close()

    return progress
