"""`python -m explorers.measure_page`: a page of its own, measured from outside; JSON on the last line.

`--requests N` sends N mixed requests, a new visitor every few of them, and reports the memory of the page's process after the
first fifty and at the end (on Linux only), and the milliseconds of each kind. `--times` opens the page in Chromium (see
requirements-dev.txt; on the path, or named by CHROMIUM) and reports, as medians, the seconds from the start of the process
to a player that can be pressed (`up_seconds`), and to the first sound from a press on it, from "Generate" and from moving
theta; the speed-ups over AR that the page shows after "Generate"; the height of the first tab at 1440 pixels, where the player
begins on a phone, and what the console said. It lists, for every tab, what axe finds in the light theme and in the dark one,
the controls that the keyboard does not reach or use, and what is wider than a screen of 360 pixels: each list is empty where
all is well. Times are valid only on an otherwise idle computer.
"""

import argparse
import json

from explorers.measure_page.requests import EARLY, measure_requests
from explorers.measure_page.times import measure_times

REPEATS = 5


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m explorers.measure_page", description=__doc__, formatter_class=formatter)
    parser.add_argument("--model", default="embedded", help="as for app.py")
    parser.add_argument("--requests", type=int, default=0, help=f"how many to send, more than {EARLY} (0: none)")
    parser.add_argument("--times", action="store_true", help="measure in Chromium what a visitor waits for")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"of each time (default {REPEATS})")
    options = parser.parse_args()
    figures = measure_requests(options.model, options.requests) if options.requests else {}
    print(json.dumps(figures | (measure_times(options.model, options.repeats) if options.times else {})))


if __name__ == "__main__":
    main()
