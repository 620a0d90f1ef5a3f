"""`lattice uenv pull|push|sign|test`: images as files. What a user may do with them is what the file system lets the user do."""

import argparse
import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import IO, cast

from lattice.cli.command import Command
from lattice.cli.commands.images.uenv import is_path
from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED, CommandError, UsageError
from lattice.cli.input.images import absolute, describe_file
from lattice.cli.output import structured
from lattice.cli.views.allocations import bytes_text
from lattice.images.metadata import FILE
from lattice.images.patches import apply_views
from lattice.images.references import BadReference, ImageReference, parse_images
from lattice.images.signatures import SUFFIX, BadKey, sign

CHUNK = 1 << 20
TIMEOUT_S = 60.0  # without a byte of a registry


@dataclass(frozen=True, kw_only=True)
class Options:
    file: str = ""
    image: str = ""
    key: str = ""
    force: bool = False


def fill_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="NAME/VERSION:TAG of the site's images")
    parser.add_argument("file", nargs="?", metavar="FILE", help="file to write (default: NAME-VERSION-TAG.squashfs)")
    parser.add_argument("--force", action="store_true", help="replace the file")


def fill_push(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="squashfs file; the signature beside it goes along")
    parser.add_argument("image", metavar="NAME/VERSION:TAG", help="how it is called from then on")
    parser.add_argument("--force", action="store_true", help="replace the image of that name")


def fill_sign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=f"squashfs file; the signature is written to FILE{SUFFIX}")
    parser.add_argument("--key", metavar="FILE", required=True, help="private key in PEM form, Ed25519 or ECDSA")


def fill_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="squashfs file")


def run_pull(options: Options, context: Context) -> int:
    if is_path(options.image):
        raise UsageError(f"{options.image} is a file already", hint="name an image of the site: `lattice uenv list`")
    found = context.client.get_image(options.image)
    name = found.image.replace("/", "-").replace(":", "-") + ".squashfs"
    target = absolute(options.file or name, context.process.directory())
    digest = _copy(found.source, target, force=options.force)
    if digest != found.digest:
        os.unlink(target)
        raise CommandError(f"{found.source} has other bytes than the server saw; try again", exit_code=REFUSED)
    if found.source.startswith("/"):
        _copy_signature(found.source, target)
    if not structured(context, {"file": target, "digest": digest, "size": found.size}):
        context.say(f"{target}: {found.image}, {bytes_text(found.size)}")
    return OK


def run_push(options: Options, context: Context) -> int:
    reference = _named(options.image)
    path = absolute(options.file, context.process.directory())
    digest, size, metadata = describe_file(path)
    if metadata is None or not metadata.mount:
        context.streams.complain(
            f"warning: {path} does not say where to mount it; users must: {reference.label}:/MOUNT\n"
        )
    directory = context.client.list_images().directory
    if not directory:
        raise CommandError(
            "this cluster keeps no images in a directory",
            hint=f"where it has a registry: oras push HOST/PREFIX/{reference.name}/{reference.version}:{reference.tag} "
            f"{options.file}:application/x-squashfs",
            exit_code=REFUSED,
        )
    folder = os.path.join(directory, reference.name, reference.version)
    target = os.path.join(folder, f"{reference.tag}.squashfs")
    try:
        os.makedirs(folder, 0o755, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make {folder}: {error.strerror}", exit_code=REFUSED) from None
    # An old signature must not stand beside new bytes, and the new one must be there before them.
    if options.force:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target + SUFFIX)
    elif os.path.exists(target):
        raise CommandError(
            f"there is an image {reference.label} already", hint="use another tag, or --force", exit_code=REFUSED
        )
    _copy_signature(path, target)
    if _copy(path, target, force=options.force) != digest:
        os.unlink(target)
        raise CommandError(f"{path} changed meanwhile; try again", exit_code=REFUSED)
    if not structured(context, {"image": reference.label, "digest": digest, "size": size}):
        context.say(f"{reference.label}: {bytes_text(size)}, sha256:{digest}")
    return OK


def run_sign(options: Options, context: Context) -> int:
    here = context.process.directory()
    path, key = absolute(options.file, here), absolute(options.key, here)
    digest, _, _ = describe_file(path)
    try:
        with open(key, "rb") as file:
            content = sign(digest, file.read(CHUNK))
        with open(path + SUFFIX, "wb") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    except ImportError:
        raise CommandError("signing needs the Python package cryptography", hint="pip install cryptography") from None
    except BadKey as error:
        raise UsageError(f"--key: {error}", hint="make one with: openssl genpkey -algorithm ed25519 -out KEY") from None
    if not structured(context, {"file": path + SUFFIX, "digest": digest}):
        context.say(f"{path}{SUFFIX}: sha256:{digest}")
    return OK


def run_test(options: Options, context: Context) -> int:
    """Exit code 1 when the image cannot be used as it is."""
    path = absolute(options.file, context.process.directory())
    digest, size, metadata = describe_file(path)
    problems = []
    if metadata is None:
        problems.append(f"it has no {FILE}: users must name a mount point, and there are no views")
    elif not metadata.mount:
        problems.append(f"its {FILE} names no mount point")
    views = list(metadata.views.values()) if metadata is not None else []
    for view in views:
        try:
            apply_views({"HOME": "/home/user", "PATH": "/usr/bin:/bin"}, [(view.name, view)])
        except BadReference as error:
            problems.append(f"view {view.name}: {error}")
    names = [view.name for view in views]
    if not structured(context, {"digest": digest, "size": size, "views": names, "problems": problems}):
        context.say(f"{path}: {bytes_text(size)}, sha256:{digest}")
        context.say(f"views: {', '.join(names) or 'none'}")
        for problem in problems:
            context.streams.complain(f"error: {problem}\n")
    return REFUSED if problems else OK


def _named(text: str) -> ImageReference:
    try:
        references = parse_images(text)
    except BadReference as problem:
        raise UsageError(str(problem), hint=problem.hint) from None
    wanted = references[0]
    if len(references) != 1 or not (wanted.name and wanted.version and wanted.tag) or wanted.digest or wanted.mount:
        raise UsageError(f'"{text[:60]}" is not the whole name of an image', hint="write NAME/VERSION:TAG")
    return wanted


def _copy(source: str, target: str, *, force: bool) -> str:
    """The digest of what was copied; the target appears complete or not at all. Raises CommandError."""
    if not force and os.path.exists(target):
        raise CommandError(f"there is a file {target} already", hint="use --force", exit_code=REFUSED)
    draft = f"{target}.{os.getpid()}.part"
    hashed = hashlib.sha256()
    try:
        with _opened(source) as file, open(draft, "xb") as out:
            while piece := file.read(CHUNK):
                hashed.update(piece)
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        why = error.strerror or getattr(error, "reason", "") or error
        raise CommandError(f"cannot copy {source} to {target}: {why}", exit_code=REFUSED) from None
    return hashed.hexdigest()


def _opened(source: str) -> IO[bytes]:
    """A file, or what a registry gives to everybody. Raises OSError."""
    if not source.startswith(("http://", "https://")):
        return open(source, "rb")
    from urllib.request import urlopen

    return cast("IO[bytes]", urlopen(source, timeout=TIMEOUT_S))  # noqa: S310 - http and https alone


def _copy_signature(source: str, target: str) -> None:
    if os.path.exists(source + SUFFIX):
        _copy(source + SUFFIX, target + SUFFIX, force=True)


PULL = Command(
    options=Options,
    fill=fill_pull,
    run=run_pull,
    examples=("lattice uenv pull prgenv-gnu/24.11:v1", "lattice uenv pull prgenv-gnu/24.11:v1 gnu.squashfs"),
)
PUSH = Command(
    options=Options, fill=fill_push, run=run_push, examples=("lattice uenv push ./tools.squashfs tools/1.0:v1",)
)
SIGN = Command(
    options=Options, fill=fill_sign, run=run_sign, examples=("lattice uenv sign ./tools.squashfs --key=site.pem",)
)
TEST = Command(options=Options, fill=fill_test, run=run_test, examples=("lattice uenv test ./tools.squashfs",))
