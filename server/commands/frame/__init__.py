"""What all commands of `ottla` have in common.

`table` names all commands; `command_line` finds the one that is meant, whose `parser` reads its options. `options` are those that many
have, `errors` how a command ends that cannot do what it should; `printing` and `terminal` are what people see.
"""
