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
    yield
    root.handlers[:], root.level = handlers, level


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


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        configure("server", "loud")
