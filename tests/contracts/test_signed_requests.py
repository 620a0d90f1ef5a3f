"""Signed addresses are what Amazon's own library makes of the same request."""

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.config import Config  # type: ignore[import-untyped]

from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.signing import signed_url

BUCKET = Bucket(
    name="results",
    endpoint="https://s3.example.org:9000",
    region="eu-central-1",
    key_id="AKIDEXAMPLE",
    key_secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
)
UPLOAD = {"UploadId": "a~b.c/d+e="}


@pytest.mark.parametrize(
    ("call", "more", "method", "query"),
    [
        ("put_object", {}, "PUT", {}),
        ("head_object", {}, "HEAD", {}),
        ("create_multipart_upload", {}, "POST", {"uploads": ""}),
        ("upload_part", {**UPLOAD, "PartNumber": 7}, "PUT", {"partNumber": "7", "uploadId": "a~b.c/d+e="}),
        ("abort_multipart_upload", UPLOAD, "DELETE", {"uploadId": "a~b.c/d+e="}),
        ("restore_object", {}, "POST", {"restore": ""}),
    ],
)
@pytest.mark.parametrize("name", ["plain", "deep/with space+plus~tilde/ä.bin"])
def test_a_signature_is_that_of_amazons_library(
    call: str, more: dict[str, object], method: str, query: dict[str, str], name: str
) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=BUCKET.endpoint,
        region_name=BUCKET.region,
        aws_access_key_id=BUCKET.key_id,
        aws_secret_access_key=BUCKET.key_secret,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    theirs = client.generate_presigned_url(call, Params={"Bucket": BUCKET.name, "Key": name, **more}, ExpiresIn=600)
    asked = parse_qs(urlsplit(theirs).query, keep_blank_values=True)
    moment = datetime.strptime(asked["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    given = dict.fromkeys(query, "")
    given.update(query)
    ours = urlsplit(signed_url(BUCKET, method, name, given, now=moment))
    assert (ours.scheme, ours.netloc, ours.path) == urlsplit(theirs)[:3]
    extra = {key: value[0] for key, value in asked.items() if not key.startswith("X-Amz-")}
    assert extra.keys() - given.keys() <= {"x-id"}
    with_extra = signed_url(BUCKET, method, name, {**given, **extra}, now=moment)
    assert parse_qs(urlsplit(with_extra).query)["X-Amz-Signature"] == asked["X-Amz-Signature"]
