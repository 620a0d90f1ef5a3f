"""Generates the .proto files of the API, and src/lattice/wire/pb from all of proto/.

    python tools/proto.py            write the files and the modules
    python tools/proto.py --check    fail when they are not what the operation table and the .proto files say
    python tools/proto.py --drop X   take the message, MESSAGE.FIELD or SERVICE.METHOD out of what was published

The generator writes imports for packages named like the folders; ours all live
in `lattice.wire.pb`, so the import lines are rewritten.
"""

import argparse
import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PROTO = ROOT / "proto"
FOLDERS = ("lattice/v1", "etcd", "spiffe")
TARGET = ROOT / "src" / "lattice" / "wire" / "pb"

FOREIGN_IMPORT = re.compile(r"^from (?:lattice\.v1|etcd|spiffe) import ", re.MULTILINE)


def generate() -> dict[str, str]:
    """File name to content, for everything that belongs into the target."""
    sources = sorted(str(path) for folder in FOLDERS for path in (PROTO / folder).glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        well_known = files("grpc_tools") / "_proto"
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={PROTO}",
                f"--proto_path={well_known}",
                f"--python_out={scratch}",
                f"--pyi_out={scratch}",
                f"--grpc_python_out={scratch}",
                *sources,
            ]
        )
        if status != 0:
            sys.exit(f"proto: the generator failed with status {status}")
        made = [path for folder in FOLDERS for path in sorted((Path(scratch) / folder).iterdir())]
        content = {path.name: rewrite(path.read_text()) for path in made}
    return {
        name: text
        for name, text in {"__init__.py": "", **content}.items()
        if not (name.endswith("_grpc.py") and "Servicer" not in text)
    }


def rewrite(text: str) -> str:
    return FOREIGN_IMPORT.sub("from lattice.wire.pb import ", text)


def present() -> dict[str, str]:
    return {path.name: path.read_text() for path in TARGET.iterdir() if path.is_file()}


def check(wanted: dict[str, str]) -> int:
    found = present() if TARGET.is_dir() else {}
    stale = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if stale:
        print("proto: not up to date, run `make proto`:", *stale, file=sys.stderr)
    return 1 if stale else 0


def write(wanted: dict[str, str]) -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in present().keys() - wanted.keys():
        (TARGET / name).unlink()
    for name, text in wanted.items():
        (TARGET / name).write_text(text)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="generate the protobuf modules")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument(
        "--drop", action="append", default=[], metavar="NAME", help="was published and may go; repeatable"
    )
    parser.add_argument("--fresh", action="store_true", help="number everything anew; only before a release")
    arguments = parser.parse_args()
    # First from the files as they are: nothing of ours can be imported while the modules lack a field that `agent.proto` has.
    wanted = generate()
    status = check(wanted) if arguments.check else write(wanted)
    return status or generate_interface(arguments)


def generate_interface(arguments: argparse.Namespace) -> int:
    """The .proto files that follow from the operation table, and their modules."""
    from lattice.wire.agents.plans import PlanError
    from lattice.wire.shapes import NoShape

    try:
        from tools import interface
    except PlanError as problem:
        print(f"proto: {problem}", file=sys.stderr)
        return 1
    try:
        contract = interface.generate(arguments.drop, is_fresh=arguments.fresh)
    except (interface.Breaking, NoShape) as problem:
        print(f"proto: {problem}", file=sys.stderr)
        return 1
    if not arguments.check:
        interface.write(contract)
        return write(generate())
    if stale := interface.stale(contract):
        print("proto: not up to date, run `make proto`:", *stale, file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
