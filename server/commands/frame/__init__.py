"""Common parts of all commands of `ottla`.

`table` lists all commands; `command_line` finds the named one, whose `parser` reads its options. `options` has options
of several commands, `errors` the errors that end a command; `printing` and `terminal` are the output for people.
"""
