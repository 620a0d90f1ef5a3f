"""Signatures over the digest of an image: of the site's keys, of these bytes, and of nothing else."""

import hashlib
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from lattice.images.signatures import BadKey, BadSignature, read_public_key, sign, signer_of
from tests.conftest import require_program
from tests.image_keys import KINDS, make_key

DIGEST = hashlib.sha256(b"an image").hexdigest()
OTHER = hashlib.sha256(b"another").hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_that_signed_is_named(kind: str, tmp_path: Path) -> None:
    private, public = make_key(tmp_path, kind)
    _, stranger = make_key(tmp_path, kind, "stranger")
    keys = [read_public_key(path.name, path.read_bytes()) for path in (stranger, public)]
    content = sign(DIGEST, private.read_bytes())
    assert signer_of(DIGEST, content, keys) == public.name
    assert signer_of(DIGEST, b"AAAA\n\n" + content, keys) == public.name
    for digest, known in ((OTHER, keys), (DIGEST, keys[:1]), (DIGEST, [])):
        with pytest.raises(BadSignature, match="not made by a key of the site"):
            signer_of(digest, content, known)


@pytest.mark.parametrize("content", [b"", b"\n", b"not base64!"])
def test_a_file_without_a_signature_is_refused(content: bytes) -> None:
    with pytest.raises(BadSignature, match="holds no signature"):
        signer_of(DIGEST, content, [])


def test_a_signature_that_openssl_makes_is_accepted(tmp_path: Path) -> None:
    require_program("openssl")
    private, public = make_key(tmp_path, "p256")
    (tmp_path / "image").write_bytes(b"an image")
    words = ["openssl", "dgst", "-sha256", "-sign", str(private), str(tmp_path / "image")]
    made = subprocess.run(words, check=True, capture_output=True).stdout
    assert signer_of(DIGEST, b64encode(made), [read_public_key("site", public.read_bytes())]) == "site"


def test_what_is_no_key_is_named(tmp_path: Path) -> None:
    private, public = make_key(tmp_path, "rsa")
    for pem in (b"nonsense", private.read_bytes()):
        with pytest.raises(BadKey, match="x is not a public key in PEM form"):
            read_public_key("x", pem)
    with pytest.raises(BadKey, match="not a key for Ed25519 or ECDSA"):
        read_public_key("x", public.read_bytes())
    with pytest.raises(BadKey, match="not a key for Ed25519 or ECDSA"):
        sign(DIGEST, private.read_bytes())
    with pytest.raises(BadKey, match="not a private key"):
        sign(DIGEST, public.read_bytes())


def test_an_encrypted_key_is_refused_with_a_hint(tmp_path: Path) -> None:
    require_program("openssl")
    private, _ = make_key(tmp_path, "ed25519")
    words = ["openssl", "pkey", "-in", str(private), "-aes256", "-passout", "pass:x", "-out", str(tmp_path / "closed")]
    subprocess.run(words, check=True, capture_output=True)
    with pytest.raises(BadKey, match="encrypted"):
        sign(DIGEST, (tmp_path / "closed").read_bytes())
