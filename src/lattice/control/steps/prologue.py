"""The prologue of tasks: a program that each task runs as its user before its own, in its environment and directory.

It writes lines: `export NAME=VALUE` and `unset NAME` change the environment of the task, `print TEXT` appears in its output, as in
Slurm; other lines mean nothing. One that fails ends the task with its exit code.
"""

SHELL = "/bin/sh"
_WRAPPER = """_lattice_said=$("$1" </dev/null) || {
    set -- "$1" "$?"; echo "task prologue $1 ended with exit code $2" >&2; exit "$2"
}
shift
while IFS= read -r _lattice_line; do
    case $_lattice_line in
        "export "[A-Za-z_]*=*) _lattice_line=${_lattice_line#export }
            case ${_lattice_line%%=*} in *[!A-Za-z0-9_]*) ;; *) export "$_lattice_line" ;; esac ;;
        "unset "[A-Za-z_]*) _lattice_line=${_lattice_line#unset }
            case $_lattice_line in *[!A-Za-z0-9_]*) ;; *) unset "$_lattice_line" ;; esac ;;
        "print "*) printf '%s\\n' "${_lattice_line#print }" ;;
    esac
done <<END_OF_PROLOGUE
$_lattice_said
END_OF_PROLOGUE
unset _lattice_said _lattice_line
exec "$@"
"""


def with_prologue(argv: tuple[str, ...], program: str) -> tuple[str, ...]:
    """The words that run the program first, and then these."""
    return (SHELL, "-c", _WRAPPER, "task-prologue", program, *argv) if program and argv else argv
