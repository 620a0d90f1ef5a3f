"""Keys that sign images, for tests."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

KINDS = ("ed25519", "p256", "p384")


def make_key(folder: Path, kind: str, name: str = "") -> tuple[Path, Path]:
    """Files with the private and the public key."""
    key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    match kind:
        case "ed25519":
            key = ed25519.Ed25519PrivateKey.generate()
        case "p256":
            key = ec.generate_private_key(ec.SECP256R1())
        case "p384":
            key = ec.generate_private_key(ec.SECP384R1())
        case _:
            key = rsa.generate_private_key(65537, 2048)
    private, public = folder / f"{name or kind}.pem", folder / f"{name or kind}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public
