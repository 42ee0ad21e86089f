"""A package of its own: otherwise type checkers would take the floor `pipeline` next to `tests` for its parent."""
