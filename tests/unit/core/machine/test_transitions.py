"""The lifecycles, written down once more by hand: every pair of state and trigger, allowed and forbidden."""

from lattice.core.machine.transitions import (
    ALLOCATION_TABLE,
    NODE_TABLE,
    AllocationTrigger,
    NodeTrigger,
    next_allocation_state,
    next_node_state,
)
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import TERMINAL, AllocationState

NODES = """
Unknown:    registered>Booting reboot>Booting drain>Unknown drain_urgent>Unknown
Unknown:    hardware_failed>Down drift_expired>Down disable>Down wait>Quarantine
Booting:    confirmed>Ready confirmed_draining>Draining boot_failed>Down boots_exhausted>Failed reboot>Booting given_up>Down
Booting:    drain>Draining drain_urgent>Draining hardware_failed>Down drift_expired>Down disable>Down
Ready:      silent>Degraded check_failed>Degraded drain>Draining drain_urgent>Draining wipe>Draining
Ready:      hardware_failed>Down drift_expired>Down disable>Down
Degraded:   resumed>Ready check_failed>Degraded check_passed>Ready given_up>Down
Degraded:   drain>Draining drain_urgent>Draining wipe>Draining hardware_failed>Down drift_expired>Down disable>Down
Down:       registered>Booting reboot>Booting undrain>Booting enable>Booting
Down:       drain>Down drain_urgent>Down hardware_failed>Down disable>Down
Draining:   given_up>Down emptied>Drained drain>Draining drain_urgent>Draining wipe>Draining
Draining:   hardware_failed>Down drift_expired>Down disable>Down
Drained:    undrain>Ready undrain_unheard>Down reboot>Booting drain>Drained drain_urgent>Drained
Drained:    wipe>Drained wiped>Booting wipe_failed>Quarantine hardware_failed>Down drift_expired>Down disable>Down
Failed:     reboot>Booting enable>Booting disable>Down
Quarantine: wipe>Drained disable>Down admit>Booting
"""

ALLOCATIONS = """
Pending:       place>Starting fail>Failed cancel>Cancelled
Staging:       staged>Pending fail>Failed cancel>Cancelled
Starting:      started>Running stop>Stopping complete>Completed fail>Failed requeue>Pending
Running:       stop>Stopping complete>Completed fail>Failed requeue>Pending checkpoint>Checkpointing
Checkpointing: stop>Stopping complete>Completed fail>Failed requeue>Pending checkpoint>Checkpointing checkpointed>Running
Suspended:     place>Starting fail>Failed cancel>Cancelled
Stopping:      stop>Stopping complete>Completed fail>Failed cancel>Cancelled requeue>Pending suspend>Suspended
Completed:
Failed:
Cancelled:
"""


def read(text: str) -> dict[tuple[str, str], str]:
    table = {}
    for line in text.strip().splitlines():
        state, _, moves = line.partition(":")
        for move in moves.split():
            trigger, _, target = move.partition(">")
            table[state, trigger] = target
    return table


def test_every_pair_of_node_state_and_trigger_leads_where_it_should_or_nowhere() -> None:
    expected = read(NODES)
    for state in NodeState:
        for trigger in NodeTrigger:
            assert next_node_state(state, trigger) == expected.get((state.value, trigger.value)), (state, trigger)


def test_every_pair_of_allocation_state_and_trigger_leads_where_it_should_or_nowhere() -> None:
    expected = read(ALLOCATIONS)
    for state in AllocationState:
        for trigger in AllocationTrigger:
            target = next_allocation_state(state, trigger)
            assert target == expected.get((state.value, trigger.value)), (state, trigger)
            assert target is None or state not in TERMINAL


def test_every_trigger_is_used() -> None:
    assert {trigger for _, trigger in NODE_TABLE} == set(NodeTrigger)
    assert {trigger for _, trigger in ALLOCATION_TABLE} == set(AllocationTrigger)
