"""A certificate for 127.0.0.1, made on the spot."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate and its key; skip the test where openssl is not here."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not here to make a certificate")
    pem, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        (openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", pem, "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"),
        check=True, capture_output=True,
    )  # fmt: skip
    return pem, key


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """What a server needs to speak TLS with a certificate and its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context
