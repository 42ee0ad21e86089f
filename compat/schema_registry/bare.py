"""An HTTP server of Trio and h11 that gives one answer to every request: what a look-up is measured against.

`python bare.py` prints its port.
"""

import h11
import trio

ANSWER = b'{"schema": "{\\"type\\":\\"record\\",\\"name\\":\\"R\\",\\"fields\\":[]}", "guid": "1ab9d5bd-4ff8-4e50-a2f4-2b5b7c0a0000"}'
HEADERS = [("content-type", "application/vnd.schemaregistry.v1+json"), ("content-length", str(len(ANSWER)))]


async def serve(stream: trio.SocketStream) -> None:
    """Answer the requests of one connection."""
    connection = h11.Connection(h11.SERVER)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(65536)))
        elif isinstance(event, h11.EndOfMessage):
            events = (h11.Response(status_code=200, headers=HEADERS), h11.Data(data=ANSWER), h11.EndOfMessage())
            await stream.send_all(b"".join([connection.send(each) or b"" for each in events]))
            connection.start_next_cycle()
        elif isinstance(event, h11.ConnectionClosed):
            return


async def main() -> None:
    """Serve until the process is killed."""
    async with trio.open_nursery() as nursery:
        (listener, *_) = await nursery.start(trio.serve_tcp, serve, 0)
        print(listener.socket.getsockname()[1], flush=True)


if __name__ == "__main__":
    trio.run(main)
