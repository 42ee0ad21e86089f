"""What all commands of `ottla` have in common.

`command` is what one command is, `table` names them all; `command_line` finds the one that is meant and reads its options with a
`parser` of its own. `options` are those that many have, `errors` how a command ends that cannot do what it should;
`printing` and `progress` are what people see.
"""
