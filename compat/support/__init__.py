"""Shared code of the suites: the suite itself, other projects' test suites; brokers, clients and logs in folders."""
