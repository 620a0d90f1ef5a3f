"""Whom the kernel killed, as its log says it."""

from pathlib import Path

import pytest

from lattice.agent.shim.confinement.kernel_log import KernelLog, parse_victim

LINE = (
    "6,2053,13656128501,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/lattice/n1/alloc-7.1,task_memcg=/lattice/n1/alloc-7.1/step-0,task={name},pid=5721,uid=0\n"
)


@pytest.mark.parametrize("name", ["python3", "a,pid=1", "x,task=y", "with space", "((sd-pam))"])
def test_victim_is_named_whatever_its_name_is(name: str) -> None:
    victim = parse_victim(LINE.format(name=name))
    assert victim is not None
    assert (victim.group, victim.name, victim.pid) == ("/lattice/n1/alloc-7.1", name, 5721)
    assert victim.member == "/lattice/n1/alloc-7.1/step-0"


@pytest.mark.parametrize("line", ["", "6,1,2,-;eth0: link up\n", "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,pid=x\n"])
def test_other_lines_name_nobody(line: str) -> None:
    assert parse_victim(line) is None


def test_log_that_may_not_be_read_knows_nobody(tmp_path: Path) -> None:
    assert KernelLog(str(tmp_path / "missing")).victims_in("alloc-7.1") == []
