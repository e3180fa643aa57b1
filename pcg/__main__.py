"""python -m pcg"""

import sys

from pcg.cli import main

sys.exit(main())
