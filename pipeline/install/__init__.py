"""Compacted segments take the place of what they were made from, in a stopped store or in a broker that serves.

`install_steps` (what is only looked at, or written beside the log), `install` (offline), `install_online` with
`admin_client`.
"""
