"""`python -m ottla.server` is the command `ottla`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
