"""A gRPC listener with the servers' certificates, and more handshakes at the same time than it can take. A process of its own:
what this is about would end it by a signal.

    python -m tests.integration.quorum.tls_storm SECONDS FOLDER
"""

import os
import socket
import ssl
import sys
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc

from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
from lattice.quorum.trust.tls import PeerTls

THREADS = 4
BURST = 16


def hammer(port: int, context: ssl.SSLContext, until: float, done: list[int]) -> None:
    while time.monotonic() < until:
        opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(BURST)]
        # Every second one goes away in the middle of its handshake.
        for dropped in opened[::2]:
            dropped.close()
        for kept in opened[1::2]:
            try:
                context.wrap_socket(kept, server_hostname="127.0.0.1").close()
                done.append(1)
            except OSError:
                kept.close()


def main(seconds: float, folder: Path) -> None:
    authority, own = CertificateFolder(folder / "authority"), CertificateFolder(folder / "s1")
    create_authority(authority)
    install(own, issue(authority, ["127.0.0.1"], name="s1"))
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_secure_port("127.0.0.1:0", PeerTls(own).grpc_server())
    server.start()
    context = PeerTls(own).client
    context.set_alpn_protocols(["h2"])
    done: list[int] = []
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=hammer, args=(port, context, until, done)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until - seconds / 2:
        time.sleep(seconds / 10)
        install(own, issue(authority, ["127.0.0.1"], name="s1"))
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{len(done)}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]))
