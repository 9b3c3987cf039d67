"""Why no connection could be made, in a sentence, and what a person may do about it. Pure."""

import errno
import resource
import socket
import ssl

from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.replay.ports import ErrorCategory

_SPARE_FILES = 64
"""What a process has open beside its connections."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons where the answer to a handshake was no TLS."""

_OTHER_HOST = (62, 63, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_, _IP_ADDRESS_ (openssl/x509_vfy.h)."""

_NOT_YET, _EXPIRED = 9, 10


class ConnectError(Exception):
    """No connection could be made; ``category`` is CONNECT or TLS. ``refused`` is whether nobody
    listens at the port, or not yet.
    """

    def __init__(
        self,
        category: ErrorCategory,
        text: str,
        way_out: str = "check the URL, and that the server is up",
        *,
        refused: bool = False,
    ) -> None:
        super().__init__(text)
        self.category = category
        self.text = text
        self.way_out = way_out
        self.refused = refused


def connect_error(url: BaseUrl, failure: Exception | None, connections: int) -> ConnectError:
    """Return what to tell of an attempt to connect, with so many connections open."""
    if isinstance(failure, socket.gaierror):
        why = failure.strerror or str(failure)
        return ConnectError(
            ErrorCategory.CONNECT, f"the name {url.host} cannot be resolved ({why})"
        )
    if isinstance(failure, ssl.SSLError):
        return ConnectError(ErrorCategory.TLS, *_tls_failure(url, failure))
    why = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
    text = f"cannot connect to {url.authority} ({why})"
    if isinstance(failure, OSError) and failure.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        needed = connections + 1 + _SPARE_FILES
        text = f"{text[:-1]}: {limit} may be, and {connections} connections need {needed})"
        return ConnectError(ErrorCategory.CONNECT, text, f"allow {needed} or more with ulimit -n")
    refused = isinstance(failure, ConnectionRefusedError)
    return ConnectError(ErrorCategory.CONNECT, text, refused=refused)


def _tls_failure(url: BaseUrl, failure: ssl.SSLError) -> tuple[str, str]:
    """Return the sentence and the way out."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        why = failure.verify_message
        if failure.verify_code in _OTHER_HOST:
            return (
                f"the certificate of {url.authority} is for another host ({why})",
                "give the host that it names in the URL, or --insecure",
            )
        if failure.verify_code in (_NOT_YET, _EXPIRED):
            return (
                f"the certificate of {url.authority} is not valid now ({why})",
                "renew it, check the clock, or give --insecure",
            )
        return (
            f"the certificate of {url.authority} is of no authority known here ({why})",
            "give the authority's certificate with --ca-file, or --insecure",
        )
    if failure.reason in _NO_TLS:
        return (
            f"{url.authority} does not speak TLS ({failure.reason})",
            f"give the URL as http://{url.authority}{url.path}",
        )
    return (
        f"no secure connection to {url.authority} ({failure.reason or failure})",
        "check the URL, and the TLS settings of the server",
    )
