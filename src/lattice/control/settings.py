"""Values that an administrator may change while the cluster runs; the configuration file is what they fall back to."""

from lattice.core.machine.state import State


def seconds_setting(state: State, key: str, fallback: float) -> float:
    """The committed setting in seconds, else the fallback."""
    text = state.settings.get(key)
    return fallback if text is None else float(text)
