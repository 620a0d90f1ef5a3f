"""Compile the tests once, as pytest would do it again in each of its workers where Python may not write bytecode.

pytest compiles test modules itself, because it rewrites their `assert` statements. Four workers that each compile all of them
keep two processors busy for half a minute before the first test.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc_fp, get_cache_dir

TESTS = Path(__file__).resolve().parents[1] / "tests"
PATTERNS = ("test_*.py", "conftest.py")


def rewrite(path: Path) -> bool:
    """Whether there was something to do."""
    compiled = get_cache_dir(path) / (path.name.removesuffix(".py") + PYC_TAIL)
    if _read_pyc(path, compiled) is not None:
        return False
    source_hash, code = _rewrite_test(path, None)  # type: ignore[arg-type]
    compiled.parent.mkdir(parents=True, exist_ok=True)
    draft = compiled.with_suffix(f".{os.getpid()}")
    with draft.open("wb") as file:
        _write_pyc_fp(file, source_hash, code)
    draft.replace(compiled)
    return True


def main() -> int:
    paths = sorted({path for pattern in PATTERNS for path in TESTS.rglob(pattern)})
    with ProcessPoolExecutor() as pool:
        done = sum(pool.map(rewrite, paths, chunksize=8))
    if "-v" in sys.argv[1:]:
        print(f"{done} of {len(paths)} modules compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
