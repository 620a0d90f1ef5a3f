"""`sbcast`: copies a file to every node of an allocation. It runs one task per node with srun, which receives the file as its input."""

import os
import stat
import subprocess
import sys

from lattice.slurm.version import VERSION

FLAGS = {"-f": "force", "--force": "force", "-p": "preserve", "--preserve": "preserve", "-v": "", "--verbose": ""}
VALUES = {"-j": "jobid", "--jobid": "jobid"}
# These change how the file travels, not what arrives.
SILENT_VALUES = frozenset({"-C", "--compress", "-F", "--fanout", "-s", "--size", "-t", "--timeout"})
USAGE = "Usage: sbcast [-fp] [-j JOBID] SOURCE DEST"
_WRITE = """
[ -d "$1" ] && set -- "${1%/}/$5" "$2" "$3" "$4"
if [ -e "$1" ] && [ "$2" = no ]; then echo "sbcast: error: $1: File exists (use --force to overwrite it)" >&2; exit 1; fi
fresh="$1.sbcast.$$"
if cat > "$fresh" && chmod "$3" "$fresh" && { [ -z "$4" ] || touch -d "@$4" "$fresh"; } && mv -f "$fresh" "$1"; then exit 0; fi
rm -f "$fresh"; exit 1
"""


class Wrong(Exception):
    """The line cannot be carried out; the text says why."""


def main(program: str) -> None:
    """Never returns."""
    try:
        options, words = read_line(sys.argv[1:])
        if "help" in options:
            print(USAGE)  # noqa: T201 - a program of its own
            sys.exit(0)
        if "version" in options:
            print(f"slurm {VERSION}")  # noqa: T201
            sys.exit(0)
        line, source = srun_line(options, words, os.environ, os.path.dirname(os.path.abspath(sys.argv[0])))
        with open(source, "rb") as file:
            sys.exit(subprocess.run(line, stdin=file, check=False).returncode)
    except Wrong as error:
        print(f"{program}: error: {error}", file=sys.stderr)  # noqa: T201
    except OSError as error:
        print(f"{program}: error: {error.filename}: {error.strerror}", file=sys.stderr)  # noqa: T201
    sys.exit(1)


def read_line(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by name, and the words. Raises Wrong."""
    options: dict[str, str] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if len(word) > 2 and word[0] == "-" != word[1] and word[:2] in FLAGS:  # -fp is -f -p
            rest.insert(0, f"-{word[2:]}")
            word = word[:2]
        elif len(word) > 2 and word[0] == "-" != word[1] and word[:2] in (*VALUES, *SILENT_VALUES):  # -j17 is -j 17
            word = f"{word[:2]}={word[2:].removeprefix('=')}"
        name, separator, value = word.partition("=")
        if word in ("-h", "--help", "--usage"):
            options["help"] = "yes"
        elif word in ("-V", "--version"):
            options["version"] = "yes"
        elif word in FLAGS:
            options[FLAGS[word]] = "yes"
        elif name in VALUES or name in SILENT_VALUES:
            if name in ("-C", "--compress") and not separator:
                continue
            if not separator and not rest:
                raise Wrong(f"option {name} needs a value")
            options[VALUES.get(name, "")] = value if separator else rest.pop(0)
        elif word.startswith("-") and len(word) > 1:
            raise Wrong(f"unrecognized option {word}\n{USAGE}")
        else:
            words.append(word)
    return options, words


def srun_line(
    options: dict[str, str], words: list[str], variables: "os._Environ[str] | dict[str, str]", folder: str
) -> tuple[list[str], str]:
    """What to run, and the file that it reads. Raises Wrong."""
    if len(words) != 2:
        raise Wrong(f"needs a file and a destination\n{USAGE}")
    source, target = words
    about = os.stat(source)
    if not stat.S_ISREG(about.st_mode):
        raise Wrong(f"{source} is not a file")
    job = options.get("jobid") or variables.get("SLURM_JOB_ID", "")
    if not job:
        raise Wrong("need a job id to run this command: run it inside a job, or name one with --jobid")
    nodes = variables.get("SLURM_JOB_NUM_NODES", "")
    if not nodes or job != variables.get("SLURM_JOB_ID"):
        nodes = _nodes_of(job, folder)
    mode = stat.S_IMODE(about.st_mode) if "preserve" in options else 0o700 if about.st_mode & 0o100 else 0o600
    moment = str(int(about.st_mtime)) if "preserve" in options else ""
    force = "yes" if "force" in options else "no"
    where = target if target.startswith("/") else os.path.join(os.getcwd(), target)
    task = ["sh", "-c", _WRITE, "sbcast", where, force, f"{mode:o}", moment, os.path.basename(source)]
    step = [f"{folder}/srun", f"--jobid={job}", "--overlap", f"-N{nodes}", f"-n{nodes}", "--ntasks-per-node=1"]
    return [*step, *task], source


def _nodes_of(job: str, folder: str) -> str:
    line = [f"{folder}/squeue", "-h", "-j", job, "-t", "R", "-o", "%D"]
    asked = subprocess.run(line, capture_output=True, text=True, check=False)
    found = asked.stdout.strip()
    if not found.isdigit():
        raise Wrong(f"job {job} does not run")
    return found
