"""Programs: `ottla` with all its commands.

`cli` runs a command line; `frame` finds the command that it names, whose module is loaded then. Commands that speak to
a broker are in `kafka`, those that speak to its admin listener in `admin`. This folder has those that do neither:
`serve_command` with `serve` and `node_lines`, `dump_log` with `dump_records`, `describe_config`, `completion`.
`container` is the image's entrypoint, in front of all of them.
"""
