"""The table of rules: every command is judged by exactly one rule, and a rule refuses to judge another's command."""

from typing import get_args

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.decide import RULES, TABLE
from lattice.core.machine.state import State


def test_every_command_has_exactly_one_rule() -> None:
    assert set(RULES) == set(get_args(cmd.AnyCommand))
    assert len(TABLE) == len(RULES)


def test_a_rule_does_not_judge_the_command_of_another() -> None:
    judge = RULES[cmd.CancelAllocation]
    with pytest.raises(TypeError, match="CancelAllocation was given FoldTasks"):
        judge(State.empty(), cmd.FoldTasks(numbers=()), "", 0)
