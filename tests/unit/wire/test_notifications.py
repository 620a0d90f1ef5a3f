"""The words in which notifications are asked for, and those in which they are told."""

from pathlib import Path
from typing import Any

import pytest

from lattice.core.model.work.notifications import Notification, Notify, Occasion
from lattice.wire.text.problems import BadField
from lattice.wire.work.notifications import (
    NotifyRequest,
    check_destination,
    notice_text,
    notice_view,
    parse_notify,
    webhook_key,
    webhook_signature,
)

ALL = (Occasion.BEGIN, Occasion.END, Occasion.FAIL, Occasion.REQUEUE)


@pytest.mark.parametrize(
    ("words", "on"),
    [
        ("end,begin", (Occasion.BEGIN, Occasion.END)),
        (["END", "fail,requeue"], (Occasion.END, Occasion.FAIL, Occasion.REQUEUE)),
        ("all", ALL),
        ("ALL,TIME_LIMIT_80", (*ALL, Occasion.TIME_LIMIT_80)),
        ("time-limit-near", (Occasion.TIME_LIMIT_90,)),
        ("invalid_depend", (Occasion.FAIL,)),
        ("none", ()),
        ("", ()),
    ],
)
def test_words_for_what_to_be_told_of(words: str | list[str], on: tuple[Occasion, ...]) -> None:
    assert parse_notify(NotifyRequest(on=words)) == Notify(on=on)


def test_tasks_one_by_one_may_be_asked_for_with_a_word() -> None:
    assert parse_notify(NotifyRequest(on="end,tasks")).each_task
    assert parse_notify(NotifyRequest(on="end,ARRAY_TASKS")).each_task
    assert not parse_notify(NotifyRequest(on="end")).each_task


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("mail:ada@example.org", "mail:ada@example.org"),
        ("ada.l+x@example.org", "mail:ada.l+x@example.org"),
        ("webhook:https://h.org:8443/a?b=c", "webhook:https://h.org:8443/a?b=c"),
        (" https://h.org/ ", "webhook:https://h.org/"),
    ],
)
def test_destinations(text: str, understood: str) -> None:
    assert check_destination(text, "to") == understood


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "mail:",
        "mail:ada",
        "mail:a@b\r\nBcc: x@y",
        "mail:ä@b.c",
        f"mail:{'a' * 300}@b.c",
        "webhook:example.org",
        "webhook:https://",
        "webhook:https://h:0/",
        "webhook:https://h:99999/",
        "webhook:https://u:p@h/",
        "webhook:https://h/a b",
        "webhook:https://h/\r\nX: y",
        "webhook:file:///etc/passwd",
        f"webhook:https://h/{'a' * 3000}",
    ],
)
def test_what_is_no_destination(text: str) -> None:
    with pytest.raises(BadField):
        check_destination(text, "to")


def test_a_group_is_told_of_with_its_tasks() -> None:
    told = Notification(
        number=1,
        at=1_772_700_000_000,
        occasion=Occasion.END,
        to="mail:a@b.c",
        user="ada",
        tenant="t",
        vcluster="v",
        allocation=17,
        name="sweep",
        state="Completed",
        tasks=(9, 0, 1),
    )
    subject, body = notice_text(told)
    assert subject == "Lattice: a17 sweep ended"
    assert "9 completed, 0 failed, 1 cancelled" in body
    view = notice_view(told)
    assert view.tasks is not None
    assert (view.id, view.tasks.completed, view.group_id) == ("n1-1772700000000", 9, None)


def test_the_guide_says_how_to_check_a_signature() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "notifications.md").read_text()
    names: dict[str, Any] = {}
    exec(guide.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - our own page
    key = webhook_key(b"secret", "ada")
    signature = f"sha256={webhook_signature(key, '17', b'{}')}"
    assert names["is_genuine"](key, "17", b"{}", signature)
    assert not names["is_genuine"](key, "18", b"{}", signature)
    assert not names["is_genuine"](webhook_key(b"secret", "bob"), "17", b"{}", signature)
    for occasion in Occasion:
        assert f"`{occasion.replace('_', '-')}`" in guide
