"""`lattice hold`: keep a pending allocation from starting."""

from lattice.cli.each import TASKS, allocation_order

COMMAND = allocation_order("hold", "held", lambda client: client.hold, TASKS)
