"""Clients of a broker: librdkafka, a bare socket, and a pinger that reports how long other clients wait."""
