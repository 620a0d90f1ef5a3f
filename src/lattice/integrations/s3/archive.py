"""Objects of a bucket that lie in an archive (Glacier and what speaks like it): they are asked for, and looked at until they are there."""

import contextlib
import http.client
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.signing import signed_url
from lattice.ports.data.sources import SourceError, SourceGone

ARCHIVED = ("GLACIER", "DEEP_ARCHIVE")
CLASS, RESTORE = "x-amz-storage-class", "x-amz-restore"
ONGOING = 'ongoing-request="true"'
_MAX_TEXT = 200


class Archive:
    """`days`: how long what was restored can be read; `speed`: Standard, Bulk or Expedited."""

    def __init__(self, bucket: Bucket, *, days: int, speed: str) -> None:
        self._bucket = bucket
        self._body = (
            '<RestoreRequest xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Days>{days}</Days><GlacierJobParameters><Tier>{speed}</Tier></GlacierJobParameters></RestoreRequest>"
        ).encode()

    def restoring(self, names: Iterable[str]) -> str:
        """Asks for what was not asked for before. Empty when all can be read; otherwise how much is missing. Raises SourceError."""
        count = waiting = 0
        with contextlib.closing(self._connect()) as connection:
            for name in names:
                count += 1
                headers = self._head(connection, name)
                if headers.get(CLASS, "") not in ARCHIVED:
                    continue
                said = headers.get(RESTORE, "")
                if not said:
                    self._ask(connection, name)
                waiting += not said or ONGOING in said
        return f"{waiting:,} of {count:,} objects are being restored from the archive" if waiting else ""

    def _head(self, connection: http.client.HTTPConnection, name: str) -> dict[str, str]:
        status, headers, _ = self._request(connection, "HEAD", name)
        if status == 404:
            raise SourceGone(f"s3://{self._bucket.name}/{name} does not exist")
        if status != 200:
            raise SourceError(f"cannot read s3://{self._bucket.name}/{name}: the store answered with status {status}")
        return headers

    def _ask(self, connection: http.client.HTTPConnection, name: str) -> None:
        status, _, said = self._request(connection, "POST", name, query={"restore": ""}, body=self._body)
        # 200: it was restored before; 409: another mover asked a moment ago.
        if status not in (200, 202, 409):
            text = said.decode("utf-8", "replace")[:_MAX_TEXT]
            raise SourceError(f"cannot restore s3://{self._bucket.name}/{name}: status {status}: {text}")

    def _request(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        name: str,
        *,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        address = urlsplit(signed_url(self._bucket, method, name, query))
        headers = {"content-type": "application/xml"} if body else {}
        try:
            connection.request(method, f"{address.path}?{address.query}", body=body, headers=headers)
            with connection.getresponse() as answer:
                said = answer.read(1 << 16)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise SourceError(f"cannot reach the store: {str(error) or type(error).__name__}") from None
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, said

    def _connect(self) -> http.client.HTTPConnection:
        bucket = self._bucket
        address = urlsplit(bucket.endpoint or f"https://s3.{bucket.region}.amazonaws.com")
        if address.scheme == "https":
            context = ssl.create_default_context()
            if bucket.authorities:
                context.load_verify_locations(cadata=bucket.authorities.decode())
            return http.client.HTTPSConnection(
                address.hostname or "", address.port or 443, timeout=bucket.timeout_s, context=context
            )
        return http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=bucket.timeout_s)
