"""Requests to S3 that are signed in their address (Signature Version 4): its holder may send exactly that request, for a time.

For what the library of the store does not do: restoring from an archive, and uploads by those who hold no key.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from lattice.integrations.s3.bucket import Bucket

ALGORITHM = "AWS4-HMAC-SHA256"
LASTS_S = 600


def signed_url(
    bucket: Bucket,
    method: str,
    name: str,
    query: Mapping[str, str] | None = None,
    *,
    now: datetime | None = None,
    lasts_s: int = LASTS_S,
) -> str:
    """The address of an object, or of the bucket itself where `name` is empty, that permits this method with this query."""
    base = (bucket.endpoint or f"https://s3.{bucket.region}.amazonaws.com").rstrip("/")
    address = urlsplit(base)
    path = f"{address.path}/{bucket.name}" + (f"/{quote(name, safe='/~')}" if name else "")
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{bucket.region}/s3/aws4_request"
    words = {
        **(query or {}),
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{bucket.key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(lasts_s),
        "X-Amz-SignedHeaders": "host",
    }
    line = "&".join(f"{quote(key, safe='~')}={quote(words[key], safe='~')}" for key in sorted(words))
    asked = "\n".join((method, path, line, f"host:{address.netloc}\n", "host", "UNSIGNED-PAYLOAD"))
    text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(asked.encode()).hexdigest()))
    key = f"AWS4{bucket.key_secret}".encode()
    for part in (moment[:8], bucket.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return f"{address.scheme}://{address.netloc}{path}?{line}&X-Amz-Signature={signature}"
