"""Builds the release: wheels for each platform, the source distribution, and the accompanying files. See README.md."""
