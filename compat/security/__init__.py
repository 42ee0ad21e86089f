"""Who may log in and do what: four clients at every kind of listener, beside what they got from Apache Kafka 4.3.1.

To be read in this order: `rights.py` (who has which rights), `actions.py` (what clients are made to do), `logins.py` (who
comes with what, where), `scene.py` (the broker and all that has to be there before), `driver.py` (clients in processes of
their own), `recording.py` (answers, kept), `__main__.py`.
"""
