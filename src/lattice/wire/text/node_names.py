"""Lists of nodes as people write them: names, and names folded as `n[3-5,7]`."""

from collections.abc import Sequence

from lattice.slurm.text import hostlists
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import MAX_LIST, check_names

_HINT = "write n1,n[3-5,7]"


def most_named(*given: str | Sequence[str]) -> int:
    """How many nodes these lists can name at most, without listing them."""
    texts = [text for each in given for text in ([each] if isinstance(each, str) else each)]
    return sum(hostlists.most_named(text) for text in texts if text)


def node_names(given: str | Sequence[str], field: str) -> tuple[str, ...]:
    """Each name once, in the order written. Raises BadField, which says where a list cannot be read."""
    if not given:
        return ()
    names: list[str] = []
    for text in [given] if isinstance(given, str) else given:
        try:
            found = expand(text, MAX_LIST)
        except BadHostlist as error:
            raise BadField(field, f'cannot read "{text[:60]}" as names of nodes: {error}', hint=_HINT) from None
        # An empty name in a list of them is a mistake; nothing at all in a text is no name.
        names += found if found or isinstance(given, str) else [text]
        if len(names) > MAX_LIST:
            raise BadField(field, "names too many nodes", limit=f"{MAX_LIST:,}")
    return check_names(names, field)
