"""`python -P -m ottla.server.commands.container`, the image's entrypoint."""

import sys

from .entrypoint import main

sys.exit(main(sys.argv[1:]))
