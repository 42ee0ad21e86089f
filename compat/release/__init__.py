"""Builds what people install: wheels for each platform, the source distribution, and the papers beside them. See README.md."""
