# Becomes test/__init__.py, which kafka-python's source distribution leaves out.
