"""What the suites share: the suite itself, others' test suites; brokers, clients and logs in folders of their own."""
