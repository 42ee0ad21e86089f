"""Programs that drive clients by order of a suite, one a language, with the clients' own defaults.

A program reads orders from standard input, words separated by spaces, and prints what happens to the client NAME, in lines of
`@ NAME EVENT [WORD]`. It ends with its standard input.

    consume NAME BOOTSTRAP TOPIC GROUP PROTOCOL RESET HEARTBEAT_MS
                                                         subscribe; PROTOCOL classic, consumer, share or
                                                         streams, RESET earliest or latest, HEARTBEAT_MS the
                                                         interval of heartbeats, 0 for the client's default
    produce NAME BOOTSTRAP                               start a producer: ready
    transact NAME BOOTSTRAP                              start a transactional producer, its transactional id is NAME: ready
    send NAME TOPIC VALUE                                produce a record, if transactional in a transaction of its own: sent
    admin NAME BOOTSTRAP                                 start an admin client: ready
    create NAME TOPIC                                    create a topic of one partition: created
    close NAME                                           closing, just before the call; then closed

A consumer reports `assigned N` when the number of its partitions changes, and `record VALUE`. It reads committed records only.
A member of a share group has no partitions of its own, so it reports records alone.
A failed order is `error TEXT`.
"""
