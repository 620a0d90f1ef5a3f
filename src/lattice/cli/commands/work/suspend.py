"""`lattice suspend`: suspend running allocations; they keep their nodes, and their walltime is paused."""

from lattice.cli.each import ONE_TASK, allocation_order

COMMAND = allocation_order("suspend", "suspended", lambda client: client.suspend, ONE_TASK)
