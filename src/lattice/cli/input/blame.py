"""Says a complaint about a submission in the words in which it was typed: the flag, and the line of the script that gave it."""

from collections.abc import Mapping

# How the flags of `lattice submit` are called in a request, where they are called otherwise.
_FLAGS = {
    "lifecycle.walltime": "--walltime",
    "lifecycle.preemption_class": "--preemption-class",
    "lifecycle.requeue": "--requeue",
    "lifecycle.max_requeue": "--max-requeue",
    "resources.nodes": "--nodes",
    "resources.max_nodes": "--nodes",
    "resources.cpus": "--cpus",
    "resources.memory": "--memory",
    "resources.gpus": "--gpus",
    "resources.constraints.topology": "--topology",
    "resources.constraints.memory_policy": "--memory-policy",
    "resources.constraints.nodes": "--nodelist",
    "resources.constraints.exclude": "--exclude",
    "output.stdout": "--stdout",
    "output.stderr": "--stderr",
    "output.stdin": "--stdin",
    "notify.on": "--notify",
    "notify.to": "--notify-to",
    "environment": "--env",
    "tasks": "--task-group",
    "tags": "--tag",
    "begin": "--begin",
    "deadline": "--deadline",
    "depends_on": "--depends-on",
    "signal": "--signal",
    "mutex": "--mutex",
    "name": "--name",
    "project": "--project",
    "cwd": "--chdir",
}
_CONSTRAINTS = "resources.constraints."
# Flags that are written into the place of another one.
_SAME = {"preemption_class": "priority"}


def in_flags(message: str, places: Mapping[str, str]) -> str:
    """`message` with the flag instead of the request's field, and where that flag was given if a directive did; `places` has the
    place of each option."""
    field, colon, rest = message.partition(": ")
    if colon and field in _FLAGS:
        message = f"{_FLAGS[field]}: {rest}"
    elif colon and field.startswith(_CONSTRAINTS):
        message = f"--constraint: {field.removeprefix(_CONSTRAINTS)} {rest}"
    elif colon and field.startswith("expose"):
        message = f"--expose: {rest}"
    place = places.get(_option(message), "")
    return f"{place}: {message}" if place else message


def _option(message: str) -> str:
    """The option with whose flag a message begins; empty when it begins otherwise."""
    word = message.split(" ", 1)[0].rstrip(":")
    if not word.startswith("--"):
        return ""
    name = word[2:].partition("=")[0].replace("-", "_")
    return _SAME.get(name, name)
