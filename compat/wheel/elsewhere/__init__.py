"""The wheels of `make release`, where they can run. See the README of the folder above."""
