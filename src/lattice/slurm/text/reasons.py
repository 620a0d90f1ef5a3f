"""Maps the scheduler's explanation of a pending job to one of Slurm's reason codes."""

import re

_START_MODES = (
    ("waiting behind", "Priority"),
    ("waiting for the next cycle", "None"),
    ("held by its user", "JobHeldUser"),
    ("held by user", "JobHeldUser"),
    ("held by", "JobHeldAdmin"),
    ("not before", "BeginTime"),
    ("waiting for tasks of its group", "JobArrayTaskLimit"),
    ("waiting for quota headroom: user", "QOSMaxJobsPerUserLimit"),
    ("reservation ", "Reservation"),
    ("insufficient conformance", "Resources"),
    ("no nodes registered", "ReqNodeNotAvail"),
    ("its dependency can never", "DependencyNeverSatisfied"),
)
_SUITED = re.compile(r"no nodes matching constraints: \d+ of (\d+) nodes .*?, (\d+) requested")
_ABSENT = re.compile(r"\d+ (?:drained|down|degraded|booting|not connected)\b")
_TAKEN = re.compile(r"\d+ (?:busy|kept for others|claimed)\b")


def waiting_word(sentence: str) -> str:
    """`None` for a job that no cycle has considered yet."""
    if not sentence:
        return "None"
    word = next((word for beginning, word in _START_MODES if sentence.startswith(beginning)), "")
    if word:
        return word
    if sentence.startswith("waiting for quota headroom"):
        return "AssocGrpNodeLimit" if " nodes, " in sentence else "AssocGrpJobsLimit"
    if " allows a walltime of at most " in sentence:
        return "PartitionTimeLimit"
    if sentence.startswith("vCluster") and " allows at most " in sentence:
        return "PartitionNodeLimit"
    if sentence.startswith("vCluster"):
        return "ReqNodeNotAvail" if sentence.endswith("has no nodes") else "PartitionDown"
    suited = _SUITED.match(sentence)
    if suited is not None:
        return "PartitionNodeLimit" if int(suited[2]) > int(suited[1]) else "ReqNodeNotAvail"
    if sentence.startswith("all suitable nodes occupied"):
        return "ReqNodeNotAvail" if _ABSENT.search(sentence) and not _TAKEN.search(sentence) else "Resources"
    return "Resources"
