"""Checks that ReFrame runs as jobs: one that passes and one that cannot."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, sanity_function


@rfm.simple_test
class Ranks(rfm.RunOnlyRegressionTest):  # type: ignore[misc]
    valid_systems = ["*"]  # noqa: RUF012 - as ReFrame reads it
    valid_prog_environs = ["*"]  # noqa: RUF012
    executable = "sh -c 'echo rank $SLURM_PROCID'"
    num_tasks = 2
    time_limit = "5m"

    @sanity_function
    def all_ranks(self) -> object:
        return sn.assert_eq(sn.count(sn.findall(r"rank \d", self.stdout)), 2)


@rfm.simple_test
class Failing(rfm.RunOnlyRegressionTest):  # type: ignore[misc]
    valid_systems = ["*"]  # noqa: RUF012
    valid_prog_environs = ["*"]  # noqa: RUF012
    executable = "false"
    time_limit = "5m"

    @run_after("run")
    def note(self) -> None:
        self.descr = "fails"

    @sanity_function
    def exits_well(self) -> object:
        return sn.assert_eq(self.job.exitcode, 0)
