"""Installation of compacted segments in place of their sources, in a stopped store or in a running broker.

`install_steps` (reads the log and writes only next to it), `install` (offline), `install_online` with `admin_client`.
"""
