# A replacement of aiokafka's tests/conftest.py, which is next to it under another name: the same fixtures, but a broker that is
# already running (COMPAT_BROKER, with TLS at COMPAT_TLS, with SASL at COMPAT_SASL) instead of a container, certificates of
# COMPAT_CERTIFICATES, no Kerberos.
import os
import pathlib

import pytest
from container import Container

from .conftest_of_aiokafka import *
from .conftest_of_aiokafka import KafkaServer


@pytest.fixture(scope="session")
def kafka_image(request):
    return request.config.getoption("--docker-image")


@pytest.fixture(scope="session")
def kafka_server():
    host, port = os.environ["COMPAT_BROKER"].rsplit(":", 1)
    tls, sasl = (int(os.environ[name].rpartition(":")[2] or 0) for name in ("COMPAT_TLS", "COMPAT_SASL"))
    return KafkaServer(host, int(port), tls, sasl, 0, Container(os.environ["COMPAT_BROKER"]))


@pytest.fixture(scope="session")
def ssl_folder():
    return pathlib.Path(os.environ["COMPAT_CERTIFICATES"])


@pytest.fixture(scope="class")
def kerberos_utils():
    return None
