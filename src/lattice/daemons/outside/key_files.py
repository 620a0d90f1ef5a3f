"""Whether the files of a certificate and its key can be used by this process; both programs ask before they start anything."""

import os
import ssl
from pathlib import Path

from lattice.daemons.outside.local_disk import user_name


def why_unreadable(path: Path) -> str:
    """What a person has to change; empty when this process may read the file."""
    try:
        path.read_bytes()
    except PermissionError:
        user = user_name(os.geteuid())
        return f"{user} may not read {path}; make it readable for this user, or run as its owner"
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    return ""


def why_no_pair(certificate: Path, key: Path) -> str:
    """Why the two cannot be shown to anybody, where both can be read; empty when they can."""
    try:
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    except ssl.SSLError as error:
        return f"{key} is not the key of {certificate}, or one of them is not PEM ({error.reason or error})"
    except (OSError, ValueError) as error:
        return f"cannot use {key}: {error}"
    return ""


def load_pair(context: ssl.SSLContext, certificate: str | Path, key: str | Path) -> None:
    """Raises OSError (of which SSLError is one) and ValueError. Never asks for a passphrase: services start by themselves."""
    context.load_cert_chain(certificate, key, password=_no_passphrase)


def _no_passphrase() -> str:
    raise ValueError("it has a passphrase, and services need one without")
