"""Who may call the servers of a training, and where they listen."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.servers.security import read_secret
from bitlane.support.text import option_of

TLS_FILES = ("tls_certificate", "tls_key", "tls_ca")


@dataclass(frozen=True)
class Access:
    """What the servers and the workers of a training must know.

    Attributes
    ----------
    host : str or None
        Where servers listen. None: at the address of their node.
    token : str
        Random.
    certificate, key : str or None
        Of the servers, PEM.
    authorities : str or None
        Certificates of the authorities that signed the servers', PEM.
    """

    host: str | None
    token: str = field(repr=False)
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    authorities: str | None = None

    @property
    def tls(self) -> tuple[str, str] | None:
        """Certificate and key of a server."""
        return None if self.certificate is None or self.key is None else (self.certificate, self.key)

    @property
    def client(self) -> dict[str, Any]:
        """The arguments of a client: token and certificates."""
        return {"token": self.token, "certificates": self.authorities}


def new_access(files: Mapping[str, Path | str | None], local: bool) -> Access:
    """Return the access to the servers of a new training, with a random token.

    Parameters
    ----------
    files : dict
        The PEM files `TLS_FILES` by name.
    local : bool
        All processes are on this machine: servers listen on loopback.

    Raises
    ------
    DataError
        A cluster without TLS, or TLS without a cluster.
    """
    given = [name for name in TLS_FILES if files.get(name) is not None]
    token = secrets.token_hex(16)
    if local:
        if given:
            raise DataError(f"{option_of(given[0])} needs a cluster: add --ray-address, or omit it")
        return Access("127.0.0.1", token)
    if len(given) < len(TLS_FILES):
        missing = ", ".join(option_of(name) for name in TLS_FILES if name not in given)
        raise DataError(f"servers of a cluster can be reached from other machines and need TLS: add {missing}")
    certificate, key, authorities = (read_secret(Path(str(files[name]))) for name in TLS_FILES)
    return Access(None, token, certificate, key, authorities)
