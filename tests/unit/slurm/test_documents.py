"""Listings as JSON: written record by record, and still one document."""

import json
from typing import Any

import pytest

from lattice.slurm.listings.documents import written

RECORDS: list[dict[str, Any]] = [
    {"job_id": 17, "nodes": ["n1", "n2"], "empty": [], "text": 'a\n"b"'},
    {"job_id": 18, "null": None},
    {},
]


@pytest.mark.parametrize("count", range(len(RECORDS) + 1))
def test_document_in_pieces_reads_like_one_written_at_once(count: int) -> None:
    text = "".join(written("jobs", RECORDS[:count], "json"))
    document = json.loads(text)
    assert document["jobs"] == RECORDS[:count]
    assert text == json.dumps(document, indent=2) + "\n"


def test_yaml_is_the_same_behind_its_marker() -> None:
    assert "".join(written("jobs", RECORDS, "yaml")) == "---\n" + "".join(written("jobs", RECORDS, "json"))
