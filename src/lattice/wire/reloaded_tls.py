"""Certificates of gRPC listeners that are replaced while they serve.

gRPC's core asks for them before every handshake and, when it is given new ones, frees the former ones without a look at the threads
that are about to use them for a handshake of their own: the process is then ended by SIGSEGV or SIGABRT
(github.com/grpc/grpc/issues/36693, seen with grpcio 1.85.1). So the answer is "no change" unless something has changed;
and when something has, the answer is held back for a moment. It asks under a lock, where new handshakes wait meanwhile,
and those that got their answer before are past the dangerous place by then.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

# A handshake needs some microseconds from the answer on; the thread may have to wait for its turn on a busy machine.
_SETTLED_S = 0.25

_log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """What a listener shows, and whose certificates it accepts; None: it asks callers for none."""

    key: bytes
    certificate: bytes
    authorities: bytes | None


def server_credentials(
    current: Callable[[], Identity], sleep: Callable[[float], None] = time.sleep
) -> grpc.ServerCredentials:
    """For one port. `current` is asked before every handshake, in threads of gRPC; while it raises, the former one stays."""
    used = current()

    def changed() -> Any:  # noqa: ANN401 - the library's own type has no name for users
        nonlocal used
        try:
            found = current()
        except (OSError, ValueError) as error:
            _log.error("%s; the previous certificate stays in use", error)
            return None
        if found == used:
            return None
        sleep(_SETTLED_S)
        used = found
        return _configuration(found)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(used), changed, require_client_authentication=used.authorities is not None
    )


def _configuration(identity: Identity) -> Any:  # noqa: ANN401 - see above
    return grpc.ssl_server_certificate_configuration([(identity.key, identity.certificate)], identity.authorities)
