"""Names in certificates in Java's notation: the results of X500Principal.getName() for the same certificates."""

from __future__ import annotations

import datetime
import ssl
from contextlib import suppress

import pytest

from ottla.server.security.tls.names import alternative_names, subject
from support.noted import each_case
from support.security.certificates import alice, authority, server

x509 = pytest.importorskip("cryptography.x509")


def certificate(*relative: list[tuple[str, str, int]]) -> bytes:
    """Return a DER certificate of a subject with these attributes: numbers of the type, text and tag byte of the encoding."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    parts = [
        x509.RelativeDistinguishedName(
            x509.NameAttribute(x509.ObjectIdentifier(numbers), text, x509.name._ASN1Type(tag))
            for numbers, text, tag in attributes
        )
        for attributes in relative
    ]
    name = x509.Name(parts)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2030, 1, 1))
        .sign(key, hashes.SHA256())
    )
    return bytes(made.public_bytes(serialization.Encoding.DER))


UTF8, PRINTABLE, IA5, UNIVERSAL = 12, 19, 22, 28
CN, C, L, ST, STREET, O, OU = (f"2.5.4.{last}" for last in (3, 6, 7, 8, 9, 10, 11))
DC, UID = "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1"
EMAIL, SERIAL, TITLE = "1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.12"


@each_case(
    "relative, written",
    [
        (
            [[(C, "DE", PRINTABLE)], [(ST, "Bayern", UTF8)], [(L, "München", UTF8)], [(CN, "a", UTF8)]],
            "CN=a,L=München,ST=Bayern,C=DE",
        ),
        ([[(O, "A, B = C", UTF8)], [(OU, 'x+y<z>#;"\\', UTF8)]], 'OU=x\\+y\\<z\\>\\#\\;\\"\\\\,O=A\\, B \\= C'),
        ([[(CN, " lead and trail  ", UTF8)]], "CN=\\ lead and trail\\ \\ "),
        ([[(O, "   ", UTF8)]], "O=\\ \\ \\ "),
        ([[(CN, "nul\0x", UTF8)]], "CN=nul\\00x"),
        ([[(DC, "org", IA5)], [(UID, "u1", UTF8), (CN, "two", UTF8)]], "CN=two+UID=u1,DC=org"),
        ([[(STREET, "s 1", UTF8)], [(EMAIL, "a@b.c", IA5)]], "1.2.840.113549.1.9.1=#16056140622e63,STREET=s 1"),
        ([[(SERIAL, "77", PRINTABLE)], [(TITLE, "Dr", UTF8)]], "2.5.4.12=#0c024472,2.5.4.5=#13023737"),
        ([[(O, "uni", UNIVERSAL)]], "O=#1c0c000000750000006e00000069"),
        ([], ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(relative: list[list[tuple[str, str, int]]], written: str) -> None:
    assert subject(certificate(*relative)) == written


def test_alternative_names_are_distinguished() -> None:
    one, both = (ssl.PEM_cert_to_DER_cert(authority().issue("s", hosts).certificate) for hosts in (["a"], ["a", "::1"]))
    assert alternative_names(one) < alternative_names(both)
    assert alternative_names(ssl.PEM_cert_to_DER_cert(alice().certificate)) == frozenset()


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 40, 200])
def test_an_invalid_certificate_is_refused(cut: int) -> None:
    with pytest.raises(ValueError):
        subject(ssl.PEM_cert_to_DER_cert(alice().certificate)[:cut])


@each_case("at", range(0, 420, 7))
def test_damaged_bytes_are_a_value_error_or_another_name(at: int) -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(server().certificate))
    for value in (0, 0x30, 0x80, 0xFF):
        der[at % len(der)] = value
        with suppress(ValueError):
            subject(bytes(der))
        with suppress(ValueError):
            alternative_names(bytes(der))
