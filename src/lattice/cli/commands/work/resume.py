"""`lattice resume`: resume suspended allocations."""

from lattice.cli.each import ONE_TASK, allocation_order

COMMAND = allocation_order("resume", "resumed", lambda client: client.resume, ONE_TASK)
