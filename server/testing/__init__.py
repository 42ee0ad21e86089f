"""Implementation of the pytest plugin, loaded once a test has requested a broker.

`run` is the core: the brokers of a run, and the work before a test and after a failed one. `options` and `settings` (the
plugin's options, and their values), `reports` (what a failed test shows: log lines, and the contents of topics),
`plain_imports` keeps pytest from rewriting our modules.
PYTEST_DONT_REWRITE
"""
