"""Programs: `ottla serve` and its siblings.

`cli` is where a command line comes in; `frame` finds the command that it means, whose module is loaded then. Commands that ask a
broker stand in `kafka`, those that ask its admin listener in `admin`; beside this text are those that do neither: `serve_command`
with `serve` and `node_lines`, `dump_log` with `dump_records`, `describe_config`, `completion`. `container` is what the image starts with, in front of all of them.
"""
