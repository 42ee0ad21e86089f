"""Authentication and authorization of clients. Tables and values, without sockets and requests.

`principal` (the identity of a client), `tokens` (delegation tokens), `tls` (identity from certificates), `sasl`
(identity from passwords and tokens), `acls` (what a principal may do), `taken_over` (all of these from Apache Kafka).
"""
