"""`python -m ottla.server` is the command `ottla`."""

from .commands.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
