"""The line in which something is typed."""

import pytest

from lattice.cli.tui.prompt import LONGEST, Prompt


def typed(prompt: Prompt, *keys: str) -> bool:
    answers = [prompt.key(key, key if len(key) == 1 else None) for key in keys]
    return all(answers)


def made(text: str = "", **more: object) -> tuple[Prompt, list[str]]:
    heard: list[str] = []
    return Prompt("/", heard.append, text=text, **more), heard  # type: ignore[arg-type]


def test_enter_hands_on_what_was_typed_and_escape_nothing() -> None:
    prompt, heard = made()
    assert typed(prompt, *"ab c")
    assert not typed(prompt, "enter")
    assert heard == ["ab c"]
    prompt, heard = made("kept")
    assert not typed(prompt, "escape")
    assert heard == []


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["backspace"], "one tw"),
        (["left", "left", "backspace"], "one wo"),
        (["home", "delete"], "ne two"),
        (["ctrl+w"], "one "),
        (["ctrl+u"], ""),
        (["home", "ctrl+k"], ""),
        (["home", "x", "end", "y"], "xone twoy"),
        (["f5"], "one two"),
    ],
)
def test_the_text_is_edited(keys: list[str], text: str) -> None:
    prompt, _ = made("one two")
    typed(prompt, *keys)
    assert prompt.text == text


def test_earlier_lines_come_back() -> None:
    prompt, _ = made(history=("first", "second"))
    typed(prompt, "up", "up")
    assert prompt.text == "first"
    typed(prompt, "down", "down")
    assert prompt.text == ""


def test_only_y_is_yes() -> None:
    for key, answers in (("y", ["y"]), ("Y", ["y"]), ("n", []), ("enter", []), ("escape", []), ("q", [])):
        prompt, heard = made(is_question=True)
        assert not typed(prompt, key)
        assert heard == answers


def test_what_is_pasted_is_one_line_and_bounded() -> None:
    prompt, _ = made()
    prompt.insert("a\nb\x1b" * 5000)
    assert prompt.text.startswith("ab")
    assert len(prompt.text) == LONGEST
    line = prompt.line(80)
    assert sum(len(span.text) for span in line) <= 80
