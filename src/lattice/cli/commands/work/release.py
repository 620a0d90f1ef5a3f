"""`lattice release`: release held allocations."""

from lattice.cli.each import TASKS, allocation_order

COMMAND = allocation_order("release", "released", lambda client: client.release, TASKS)
