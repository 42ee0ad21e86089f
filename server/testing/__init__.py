"""What the pytest plugin does once a test has asked for a broker.

`run` is the heart: the brokers of a run, and what is done before a test and after one that failed. `options` and `settings`
(which there are, and what was asked for), `reports` (what a failed test shows: log lines, and what lies in topics),
`plain_imports` keeps pytest's hands off our modules.
PYTEST_DONT_REWRITE
"""
