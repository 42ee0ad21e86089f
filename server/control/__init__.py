"""Operations on the whole broker: compaction on demand, explanations, time, faults, state.

Each module has one subject: async functions over the running broker that return frozen dataclasses, whose docstrings
and field names are their public shape. Python (`embedded`), HTTP (`http`) and the command only translate.
`..runtime.errors` describes their errors.
"""
