"""Authentication and authorization: clients at every kind of listener, compared with their results at Apache Kafka.

Read the modules in this order: `rights.py` (the ACLs of each user), `actions.py` (the actions of clients), `logins.py`
(listeners and credentials), `scene.py` (the broker and everything that must exist before), `driver.py` (clients in processes of
their own), `recording.py` (answers, saved), `__main__.py`.
"""
