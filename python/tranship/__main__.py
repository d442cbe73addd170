"""``python -m tranship`` is the command ``tranship``."""

import sys

from .cli import main

sys.exit(main())
