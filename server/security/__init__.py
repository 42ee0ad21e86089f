"""Who a client is, and what it may do. Tables and values: knows no sockets and no requests.

`principal` (who it is), `tokens` (secrets that log in in somebody's stead), `tls` (what certificates prove), `sasl` (what
passwords and tokens prove), `acls` (what a principal may do), `taken_over` (all that from Apache Kafka).
"""
