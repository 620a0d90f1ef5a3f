"""The quick `lattice`: a compiled program in front of the Python command, if there is a C compiler."""

import os
import shutil
import sys
from pathlib import Path

from lattice.cli.slurm.install import build, default_folder, link_program, write_program

FORWARDER = ".lattice"
SOURCE = "forward.c"
NAME = "lattice"
_TEXT = """#!{python}
import os
import sys
sys.argv[0] = os.environ.pop("LATTICE_PROGRAM", sys.argv[0])
from lattice.cli.main import main
main()
"""


def install_quick(folder: Path) -> bool:
    """Adds `lattice` to the folder of the Slurm commands; whether it is a quick one."""
    write_program(folder / "python" / NAME, _TEXT.format(python=sys.executable), 0o755)
    is_quick = _can_be_quoted(folder) and build(
        Path(__file__).with_name(SOURCE),
        folder / FORWARDER,
        f'-DFOLDER="{folder}"',
        f'-DPYTHON="{sys.executable}"',
    )
    link_program(folder / NAME, FORWARDER if is_quick else f"python/{NAME}")
    return is_quick


def replace_command(folder: Path) -> bool:
    """Puts the quick one in the place of the console script of this environment; whether that was possible."""
    script = Path(sys.executable).with_name(NAME)
    if not install_quick(folder):
        return False
    fresh = script.with_name(f".{NAME}.{os.getpid()}")
    shutil.copy2(folder / FORWARDER, fresh)
    fresh.replace(script)
    return True


def _can_be_quoted(folder: Path) -> bool:
    return not any(char in f"{folder}{sys.executable}" for char in '"\\\n')


if __name__ == "__main__":
    replace_command(default_folder())
