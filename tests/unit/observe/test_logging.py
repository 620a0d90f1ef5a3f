"""Log lines."""

import json
import logging
from collections.abc import Iterator

import pytest

from lattice.observe.logging import configure


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    gathered = logging._srcfile, logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    yield
    root.handlers[:], root.level = handlers, level
    logging._srcfile, logging.logThreads, logging.logProcesses, logging.logMultiprocessing = gathered


def test_a_line_is_json_with_the_fields_that_every_component_has(capsys: pytest.CaptureFixture[str]) -> None:
    configure("agent", "info", fields={"node_id": "n1"})
    logging.getLogger("x").info("started %s", "it", extra={"allocation_id": "a7"})
    logging.getLogger("x").debug("not shown")
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told.pop("timestamp").endswith("Z")
    assert told == {
        "level": "info",
        "component": "agent",
        "message": "started it",
        "node_id": "n1",
        "allocation_id": "a7",
    }


def test_an_exception_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("server", "warning")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told["level"] == "error"
    assert "ValueError: broken" in told["exception"]


def test_the_moment_is_that_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    configure("server", "info")
    for created in (1_700_000_000.0419, 1_700_000_000.9999, 1_700_000_001.0):
        record = logging.makeLogRecord({"levelno": logging.INFO, "levelname": "INFO", "msg": "m", "created": created})
        logging.getLogger("x").handle(record)
    moments = [json.loads(line)["timestamp"] for line in capsys.readouterr().err.splitlines()]
    assert moments == ["2023-11-14T22:13:20.041Z", "2023-11-14T22:13:20.999Z", "2023-11-14T22:13:21.000Z"]


def test_whatever_is_handed_over_is_told_somehow(capsys: pytest.CaptureFixture[str]) -> None:
    configure("server", "info")
    about = {"path": "caf\udce9", "large": 1 << 70, "kind": ValueError("x")}
    logging.getLogger("x").info("file %s", "\udcff", extra=about)
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["path"], told["large"], told["kind"]) == ("caf\\udce9", str(1 << 70), "x")
    assert told["message"] == "file \\udcff"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        configure("server", "loud")
