"""What asks a broker: librdkafka, a bare socket, and a pinger that says how long the others wait."""
