"""Silent nodes on a server's page."""

from lattice.observe.figures.silence import MAX_SHOWN
from lattice.observe.metrics import Metrics


def test_silent_nodes_are_named_up_to_a_bound() -> None:
    metrics = Metrics("s1")
    silent = {f"n{number}": float(number) for number in range(MAX_SHOWN + 100)}
    metrics.show_silence(lambda: silent)
    page = metrics.render().decode()
    assert f"lattice_agents_silent {MAX_SHOWN + 100}.0" in page
    assert page.count("lattice_agent_last_heartbeat_timestamp{") == MAX_SHOWN
    assert 'node_id="n99"' not in page, "those that fell silent last are shown"
    metrics.hide_loops()
    assert "lattice_agents_silent" not in metrics.render().decode()
