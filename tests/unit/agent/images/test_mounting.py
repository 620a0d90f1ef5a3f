"""Where an image may lie on a node."""

from pathlib import Path

import pytest

from lattice.agent.images import mounting
from lattice.agent.images.mounting import check_target
from lattice.images.references import BadReference

pytestmark = pytest.mark.root


def test_no_image_lies_over_a_mount_whose_name_the_kernel_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, about = tmp_path / "mountinfo", Path("/").stat()
    table.write_text("30 1 0:26 / /opt rw - tmpfs lattice rw\n31 1 0:27 / /srv\\040two rw - tmpfs lattice rw\n")
    monkeypatch.setattr(mounting, "MOUNTINFO", table)
    monkeypatch.setattr("os.lstat", lambda _: about)
    with pytest.raises(BadReference, match="/srv two is mounted already on this node"):
        check_target("/srv two")
    check_target("/srv three")
