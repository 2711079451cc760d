"""Layer 2. How do nodes talk so that nobody between them can listen or change anything?

Both ends show a certificate and both check it against the cluster's own authority. Host names are
not compared: nodes move between addresses, and whoever has a certificate of that authority is a
member. So it must be an authority that signs for this cluster and nothing else.
"""

import ssl
from pathlib import Path
from typing import NamedTuple

from wakeful.values.errors import WrongCertificate


class Tls(NamedTuple):
    """This node's certificate and key, and the authority that signed those of all nodes (PEM files)."""

    cert: str | Path
    key: str | Path
    ca: str | Path

    def listening(self) -> ssl.SSLContext:
        """For the end that is dialled."""
        return self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def dialling(self) -> ssl.SSLContext:
        """For the end that dials."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        return self._load(context)

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        for file in self:
            try:
                Path(file).open("rb").close()
            except OSError as error:
                raise WrongCertificate(f"TLS file {file} can't be read: {error.strerror}") from None
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise WrongCertificate(
                f"TLS certificate {self.cert} with key {self.key} can't be used ({reason(error)}); "
                "both must be PEM, without a password, and belong together"
            ) from None
        try:
            context.load_verify_locations(self.ca)
        except ssl.SSLError as error:
            raise WrongCertificate(f"TLS authority {self.ca} can't be used ({reason(error)}); it must be PEM") from None
        return context


def reason(error: BaseException) -> str:
    """What OpenSSL means, without its file names and numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason:
        return str(error.reason).lower().replace("_", " ")
    return str(error) or type(error).__name__


def _no_password() -> str:
    raise ValueError("the key has a password")
