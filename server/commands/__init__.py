"""Programs: `ottla serve` and its siblings.

`cli` reads the command line and loads what it needs: `serve` with `node_lines`, `topics_command` with `topics_status`,
`dump_log` with `dump_records`, `describe_config`.
"""
