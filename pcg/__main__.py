"""python -m pcg"""

import sys

from pcg.commands import main

sys.exit(main())
