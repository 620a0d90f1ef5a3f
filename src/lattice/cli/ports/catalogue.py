"""Recipes of applications that people use in a browser: ours, the site's, the user's own; a later one of the same name wins.

Each is a YAML file NAME.yaml. What runs on the node is `script_of`: it finds the program, makes a port and a token there, leaves both in
a file that the user alone can read, and becomes the application.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lattice.cli.errors import CommandError

OURS = Path(__file__).parent / "recipes"
SITE = Path("/etc/lattice/apps")
MAX_BYTES = 64 << 10
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
# Where the application says its port and token; private where runs have a /tmp of their own.
# An ID alone says too little: an earlier run, or another cluster on this machine, may have left a folder for the same one.
FOLDER = "/tmp/lattice-app-$LATTICE_ALLOC_ID${LATTICE_APP_KEY:+-$LATTICE_RUN-$LATTICE_APP_KEY}"  # noqa: S108 - checked to be the user's
KEY = "LATTICE_APP_KEY"  # made with each submission; releases before 0.2 made none
FIND = f'until [ -s "{FOLDER}/app" ]; do sleep 0.2; done; cat "{FOLDER}/app"'
MISSING = 127

# Its port is below those that the kernel gives to connections going out (32768 and above): one of them could take it before it is bound.
_SCRIPT = """set -eu
umask 077
dir="{folder}"
mkdir "$dir" 2>/dev/null || {{ [ -d "$dir" ] && [ ! -L "$dir" ] && [ -O "$dir" ]; }} ||
  {{ echo "lattice: $dir belongs to another user" >&2; exit 73; }}
chmod 700 "$dir"
rm -f "$dir/app"
found=
for program in {programs}; do
  if command -v "$program" >/dev/null 2>&1; then found=$program; break; fi
done
[ -n "$found" ] || {{ echo "lattice: not installed here:" {programs} >&2; exit {missing}; }}
while :; do
  port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))
  grep -qs "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 || break
done
token=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \\n')
printf '%s %s\\n' "$port" "$token" >"$dir/app.new"
mv "$dir/app.new" "$dir/app"
export LATTICE_APP_DIR="$dir" LATTICE_APP_PORT="$port" LATTICE_APP_TOKEN="$token" LATTICE_APP_PROGRAM="$found"
{command}"""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One application. `{token}` in `path` and `say` stands for the token that was made on the node, `{id}` and `{port}` for its place."""

    command: str
    help: str = ""
    programs: list[str] = []  # the first that the node has is used
    install: str = ""  # what to do when it has none
    path: str = "/"
    keep_path: bool = False  # the application is configured to be at /proxy/{id}/{port}/, where the gateway shows it
    say: str = ""
    probe: str = "http"  # or tcp
    start_within_s: float = 120.0
    idle: str = ""  # cancelled after this time without use, as `--idle-end` says, which comes before it


def script_of(recipe: Recipe) -> str:
    programs = " ".join(shlex.quote(each) for each in recipe.programs or ["sh"])
    return _SCRIPT.format(folder=FOLDER, programs=programs, missing=MISSING, command=recipe.command)


def folders(environment: Mapping[str, str]) -> list[Path]:
    """Where recipes are, the most general first."""
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "/")) / ".config")
    return [OURS, SITE, Path(home) / "lattice" / "apps"]


def load(environment: Mapping[str, str]) -> dict[str, Recipe]:
    """All recipes by name. Raises CommandError for a file that is none."""
    found: dict[str, Recipe] = {}
    for folder in folders(environment):
        paths = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
        found |= {path.stem: _read(path) for path in paths if _is_named(path)}
    return dict(sorted(found.items()))


def _is_named(path: Path) -> bool:
    if _NAME.fullmatch(path.stem):
        return True
    raise CommandError(f"{path}: not the name of an application", hint="use small letters, digits and dashes")


def _read(path: Path) -> Recipe:
    import yaml

    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise CommandError(f"{path}: too large for a recipe", hint=f"at most {MAX_BYTES:,} bytes")
        recipe = msgspec.convert(yaml.safe_load(text), Recipe)
    except OSError as error:
        raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CommandError(f"{path}: not a recipe: {str(error).splitlines()[0]}") from None
    if recipe.probe not in ("http", "tcp"):
        raise CommandError(f'{path}: probe is "{recipe.probe}"', hint="use http or tcp")
    return recipe
