"""The module tests of the machine status design: each of its lines about the configuration as a test."""

import pytest

from lattice.config.machine_status.debug_flags import FLAGS, loggers_of
from lattice.core.model.site.settings import SETTINGS, check_setting
from tests.machine_status.sample_files import SLURM_CONF, asked, errors, read_all, read_conf


@pytest.mark.parametrize(
    ("interval", "timeout", "settings"),
    [
        ("300", "600", ("300", "540", "60")),
        ("10", "30", ("10", "22.5", "7.5")),
        ("10", "20", ("10", "17.5", "2.5")),
        ("10", "11", ("10", "11", "0")),
        ("0", "600", ("0", "540", "60")),
        ("0.5", "2", ("0.5", "1.375", "0.625")),
    ],
)
def test_various_time_intervals(interval: str, timeout: str, settings: tuple[str, ...]) -> None:
    conf = SLURM_CONF.replace("= 300", f"= {interval}").replace("= 600", f"= {timeout}")
    found = asked(read_all(conf)).settings
    keys = ("node.heartbeat_interval_s", "node.heartbeat_timeout_s", "node.grace_s")
    assert tuple(found[key] for key in keys) == settings
    assert float(settings[1]) + float(settings[2]) == float(timeout)  # Down when the time-out of the file is over


@pytest.mark.parametrize("value", ["-1", "soon", "5m", "1e2", "inf", "nan", "10 20"])
def test_time_intervals_with_invalid_values(value: str) -> None:
    for name in ("HeartBeatInterval", "HeartBeatTimeout"):
        _, findings = read_conf(f"{name} = {value}\n")
        assert str(findings.errors[0]) == f"conf:1: {name}={value}: a number, not negative, is wanted"


@pytest.mark.parametrize(("interval", "timeout"), [("600", "600"), ("601", "600"), ("700", None), (None, "300")])
def test_a_time_out_that_is_not_longer_than_the_interval(interval: str | None, timeout: str | None) -> None:
    lines = [f"HeartBeatInterval={interval}"] if interval else []
    lines += [f"HeartBeatTimeout={timeout}"] if timeout else []
    _, findings = read_conf("\n".join(lines) + "\n")
    assert "must be longer than HeartBeatInterval" in str(findings.errors[0])


@pytest.mark.parametrize("name", ["MachStatusDaemon", "MachStatusManager", "NodeSpecConf", "PartitionConf"])
def test_various_file_location_names_including_invalid_names(name: str) -> None:
    conf, findings = read_conf(f"{name} = /opt/site/{name}\n")
    assert not findings.errors
    assert f"/opt/site/{name}" in (conf.daemon, conf.manager, conf.node_spec_conf, conf.partition_conf)
    for value in ("bin/daemon", "~/daemon", "C:\\daemon"):
        _, findings = read_conf(f"{name} = {value}\n")
        assert str(findings.errors[0]).startswith(f"conf:1: {name}={value}: a fully qualified path name is wanted")


@pytest.mark.parametrize("port", ["1", "612", "1023"])
def test_various_port_numbers(port: str) -> None:
    conf, findings = read_conf(f"MachStatusPort = {port}\n")
    assert (conf.port, findings.errors, findings.warnings) == (int(port), [], [])


def test_a_port_that_is_not_privileged_is_warned_of() -> None:
    conf, findings = read_conf("MachStatusPort = 6120\n")
    assert conf.port == 6120
    assert str(findings.warnings[0]) == (
        "conf:1: MachStatusPort=6120 is no privileged port: any user could listen there"
    )


@pytest.mark.parametrize("port", ["0", "65536", "-5", "http", "6e2", "99999999999999999999"])
def test_port_numbers_with_invalid_values(port: str) -> None:
    _, findings = read_conf(f"MachStatusPort = {port}\n")
    assert str(findings.errors[0]) == f"conf:1: MachStatusPort={port}: a port from 1 to 65535 is wanted"


def test_the_setting_knows_the_debug_options_of_the_file() -> None:
    assert SETTINGS["node.debug"].flags == tuple(FLAGS)
    assert check_setting("node.debug", "init,msg") is None
    assert check_setting("node.debug", "init,loud") is not None


@pytest.mark.parametrize("flag", FLAGS)
def test_debug_options(flag: str) -> None:
    conf, findings = read_conf(f"MachStatusDebug = {flag}, {flag.upper()}\n")
    assert (conf.debug, findings.warnings) == ((flag,), [])
    assert loggers_of(flag)


def test_debug_options_including_invalid_values() -> None:
    conf, findings = read_conf("MachStatusDebug = init,everything,msg\n")
    assert conf.debug == ("init", "msg")
    assert str(findings.warnings[0]).startswith(
        'conf:1: MachStatusDebug: unknown flag "everything" is not used; known:'
    )
    assert read_conf("MachStatusDebug =\n")[0].debug == ()
    assert loggers_of("nonsense") == frozenset()


def test_files_that_are_not_there() -> None:
    assert errors(read_all(partitions=None)) == [
        "conf:9: PartitionConf /usr/local/SLURM/PartitionConf: no such file or directory"
    ]
