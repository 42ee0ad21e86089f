"""PySpark jobs over segment stores; stands on protocol and storage only."""
