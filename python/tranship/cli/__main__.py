"""``python -m tranship.cli`` is the command ``tranship``."""

import sys

from . import main

sys.exit(main())
