"""Its own package: without this file type checkers would take the floor `pipeline` beside `tests` for its parent."""
