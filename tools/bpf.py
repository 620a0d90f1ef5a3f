"""Compiles bpf/lattice.bpf.c into the object that agents load. Needs clang alone.

python tools/bpf.py            compile
python tools/bpf.py --check    fail when the object was made of another source
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "bpf" / "lattice.bpf.c"
OBJECT = ROOT / "src" / "lattice" / "agent" / "telemetry" / "bpf" / "lattice.bpf.o"
STAMP = OBJECT.with_suffix(".sha256")
COMPILERS = ("clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")


def sums() -> str:
    """Of the source and of the object: neither is changed without the other."""
    both = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (SOURCE, OBJECT))
    return "".join(f"{each}\n" for each in both)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if not OBJECT.exists() or not STAMP.exists() or STAMP.read_text() != sums():
            sys.stderr.write(f"{OBJECT.relative_to(ROOT)} is not made of {SOURCE.relative_to(ROOT)}: run `make bpf`\n")
            return 1
        return 0
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        sys.stderr.write("bpf: clang is not installed\n")
        return 1
    # Paths relative to the root: the object holds those of its source.
    words = [compiler, "-O2", "-g", "-Wall", "-Werror", "-target", "bpfel", "-c", str(SOURCE.relative_to(ROOT))]
    words += ["-ffile-compilation-dir=.", "-o", str(OBJECT.relative_to(ROOT))]
    done = subprocess.run(words, cwd=ROOT, check=False)
    if done.returncode == 0:
        STAMP.write_text(sums())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
