"""HTTP connections whose packets carry a DSCP, so that the network can let figures wait behind everything else.

The mark is set once TCP is connected, before TLS: the packets that open the connection have none.
Redirects are not followed and proxies not used: the token goes to the configured address and nowhere else, and figures that were
sent elsewhere would count as stored.
"""

import http.client
import socket
import ssl
import urllib.request
from email.message import Message
from typing import IO

MAX_DSCP = 63


def marked_opener(dscp: int, context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Opens connections that are marked; 0 marks nothing."""

    class Marked(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            mark(self.sock, dscp)

    class MarkedTls(http.client.HTTPSConnection, Marked):
        """HTTPSConnection connects by the next class, which marks, and then begins TLS."""

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Marked, req)

    class Tls(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(MarkedTls, req, context=context)

    return urllib.request.build_opener(Plain(), Tls(context=context), _NoRedirects(), urllib.request.ProxyHandler({}))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def mark(connection: socket.socket, dscp: int) -> None:
    """All that is sent from now on carries it. Raises OSError."""
    if not dscp:
        return
    value = dscp << 2  # the two bits below are those of ECN
    if connection.family == socket.AF_INET6:
        connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, value)
    else:
        connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, value)
