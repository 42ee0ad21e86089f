"""Bytes of connections: sockets, frames, the memory that requests and answers may take."""
