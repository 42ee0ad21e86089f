"""A package of its own: otherwise type checkers would take the floor `server` next to `tests` for its parent."""
