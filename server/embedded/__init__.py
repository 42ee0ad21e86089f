"""The broker inside another program: in its Trio loop, or in a thread of it.

    async with ottla.open_broker() as broker: ...         # inside Trio
    with ottla.Broker() as broker: broker.bootstrap       # anywhere else; `async with` in asyncio and Trio

`options` (its arguments), `in_trio` (`open_broker`, and temporary directories), `run` (a Trio loop in a thread, from
start to stop), `running` (starts and stops it, and runs functions in it), `broker` (`ottla.Broker`: `running` with a
mixin for each group of methods, a module each).
"""
