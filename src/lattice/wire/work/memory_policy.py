"""The memory policy of a submission."""

from lattice.core.model.nodes.memory_policy import read_policy
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line

FIELD = "resources.constraints.memory_policy"
MAX_LENGTH = 200


def check_policy(text: str) -> str:
    """As it was given. Raises BadField."""
    checked = check_line(text, FIELD, MAX_LENGTH)
    if checked:
        try:
            read_policy(checked)
        except ValueError as error:
            raise BadField(FIELD, str(error), hint="local, interleave, preferred[:N] or bind[:N,N-N]") from None
    return checked
