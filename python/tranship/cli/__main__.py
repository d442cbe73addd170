"""``python -m tranship.cli`` is the command ``tranship``."""

import sys

from .app import main

sys.exit(main())
