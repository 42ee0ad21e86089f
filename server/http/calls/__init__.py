"""The calls of the admin listener: a module a subject, each with its requests and its rows, `CALLS`, which `..table` collects.

What a call does stands in the control room, or where the thing itself is; here it is translated.
"""
