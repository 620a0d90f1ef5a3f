"""Where files are that nobody named."""

from pathlib import Path

from lattice.config.places import config_dir, state_dir


def test_root_has_the_directories_of_the_system() -> None:
    environment = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/home/ada/c"}
    assert (config_dir(environment, 0), state_dir(environment, 0)) == (Path("/etc/lattice"), Path("/var/lib/lattice"))


def test_others_have_their_own() -> None:
    home = {"HOME": "/home/ada"}
    assert config_dir(home, 1000) == Path("/home/ada/.config/lattice")
    assert state_dir(home, 1000) == Path("/home/ada/.local/state/lattice")
    assert config_dir({**home, "XDG_CONFIG_HOME": "/c"}, 1000) == Path("/c/lattice")
    assert state_dir({**home, "XDG_STATE_HOME": "/s"}, 1000) == Path("/s/lattice")
    assert state_dir({**home, "XDG_STATE_HOME": "not/absolute"}, 1000) == Path("/home/ada/.local/state/lattice")
