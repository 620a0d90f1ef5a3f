"""Names of the site and variables that are handed on: the parts of the Slurm commands that need no cluster."""

import pytest

from lattice.api.partitions import SlurmNames, slurm_names
from lattice.api.slurm.submit.exporting import exported

CALLER = {
    "PATH": "/bin",
    "ONE": "1",
    "SLURM_JOB_ID": "3",
    "SLURM_TIME_FORMAT": "%s",
    "SBATCH_X": "y",
    "LATTICE_TOKEN": "t",
}


@pytest.mark.parametrize(
    ("export", "handed_on"),
    [
        ("", {"PATH": "/bin", "ONE": "1", "SLURM_TIME_FORMAT": "%s", "SBATCH_X": "y"}),
        ("ALL,TWO=2", {"PATH": "/bin", "ONE": "1", "TWO": "2", "SLURM_TIME_FORMAT": "%s", "SBATCH_X": "y"}),
        ("ONE,MISSING,TWO=a=b", {"ONE": "1", "TWO": "a=b"}),
        ("THREE='a,b',ONE", {"THREE": "a,b", "ONE": "1"}),
        ("NONE", {}),
        ("NIL", {}),
        ("LATTICE_TOKEN,=x", {}),
    ],
)
def test_export_says_which_variables_go_along(export: str, handed_on: dict[str, str]) -> None:
    assert exported(CALLER, export) == handed_on


def test_without_a_mapping_every_vcluster_is_a_partition() -> None:
    names = SlurmNames()
    assert names.vcluster_of("gpu", {"gpu": 1}) == "gpu"
    assert names.vcluster_of("cpu", {"gpu": 1}) is None
    assert names.known_partitions({"b": 1, "a": 1}) == ["a", "b"]
    assert (names.class_of("high"), names.class_of("x"), names.qos_of(6), names.qos_of(0)) == (8, None, "normal", "low")


def test_a_mapping_is_all_there_is() -> None:
    names = slurm_names("alps", {"main": "default", "old": "gone"}, {"only": 5})
    assert names.vcluster_of("default", {"default": 1}) is None
    assert names.known_partitions({"default": 1}) == ["main"]
    assert (names.partition_of("default"), names.partition_of("other")) == ("main", "other")
    assert slurm_names("x", {}, {}).qos == {"low": 2, "normal": 5, "high": 8}
