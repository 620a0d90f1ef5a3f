"""The screen of a terminal: what a program wrote in, the bytes that draw the same screen on a fresh terminal out.

It knows what shells, editors, pagers and monitors use of ECMA-48 and xterm: cursor, erasing, inserting and deleting, scroll regions,
colours, the alternate screen, and the modes of keyboard and mouse, which are passed on as they were set. Sequences that it does not
know change nothing. The state is plain data; nothing here waits or fails, whatever the bytes are.
"""

import codecs
import re
import unicodedata
from dataclasses import dataclass, field

PLAIN = ""
BLANK = (" ", PLAIN)
MAX_ROWS, MAX_COLUMNS = 500, 1000
TAB = 8
# Modes that are passed on by name; the alternate screen, the origin and wrapping change how the screen is drawn.
_HANDED_ON = frozenset({1, 9, 12, 25, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004})
_ON_AT_FIRST = frozenset({25})
_ALTERNATE = frozenset({47, 1047, 1049})
_TOKEN = re.compile(
    r"\x1b\[(?P<csi>[0-?]*[ -/]*[@-~])"
    r"|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b(?![\[\]PX^_])(?P<esc>[ -/]*[0-~])"
    r"|\x1b(?:\[[0-?]*[ -/]*)?(?=[^ -~])"  # broken off by something else
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
)

Cell = tuple[str, str]  # a character with what is combined with it, and its pen; "" behind a wide one


@dataclass
class _Page:
    """One of the two screens."""

    rows: list[list[Cell]]
    row: int = 0
    column: int = 0
    pen: str = PLAIN
    saved: tuple[int, int, str] = (0, 0, PLAIN)


@dataclass
class _Modes:
    on: set[int] = field(default_factory=lambda: set(_ON_AT_FIRST))
    wraps: bool = True
    keypad: bool = False
    title: str = ""


class Screen:
    """Feed it everything that was written, or the end of it; `drawing` gives the screen."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self._height, self._width = _bounded(rows, columns)
        self._page = self._other = _Page(self._blank_rows())
        self._is_alternate = False
        self._top, self._bottom = 0, self._height - 1
        self._modes = _Modes()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._last = " "

    # Input.

    def resize(self, rows: int, columns: int) -> None:
        height, width = _bounded(rows, columns)
        if (height, width) == (self._height, self._width):
            return
        self._height, self._width = height, width
        self._top, self._bottom = 0, height - 1
        for page in {id(page): page for page in (self._page, self._other)}.values():
            surplus = max(0, min(len(page.rows) - height, page.row - height + 1))
            kept = [(row + [BLANK] * (width - len(row)))[:width] for row in page.rows[surplus : surplus + height]]
            page.rows = kept + [[BLANK] * width for _ in range(height - len(kept))]
            page.row = min(page.row - surplus, height - 1)
            page.column = min(page.column, width)

    def feed(self, data: bytes) -> None:
        text = self._rest + self._decode(data)
        self._rest = ""
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:  # the beginning of a sequence: wait for the rest, unless it never comes
                if len(text) - place > 4096:
                    place += 1
                    continue
                self._rest = text[place:]
                return
            place = match.end()
            kind = match.lastgroup
            if kind == "text":
                self._write(match["text"])
            elif kind == "control":
                self._control(match["control"])
            elif kind == "csi":
                self._sequence(match["csi"])
            elif kind == "esc":
                self._escape(match["esc"])
            elif kind == "osc":
                number, _, title = match["osc"].partition(";")
                self._modes.title = title[:200] if number in ("0", "2") else self._modes.title

    def _write(self, text: str) -> None:
        page = self._page
        for char in text:
            width = _width(char)
            if width == 0:
                self._combine(char)
                continue
            if page.column + width > self._width:
                if not self._modes.wraps:
                    page.column = self._width - width
                else:
                    page.column = 0
                    self._line_feed()
            row = page.rows[page.row]
            row[page.column] = (char, page.pen)
            if width == 2 and page.column + 1 < self._width:
                row[page.column + 1] = ("", page.pen)
            page.column += width
            self._last = char

    def _combine(self, char: str) -> None:
        row, column = self._page.rows[self._page.row], self._page.column - 1
        if column >= 0 and len(row[column][0]) < 8:
            row[column] = (row[column][0] + char, row[column][1])

    def _control(self, char: str) -> None:
        page = self._page
        if char == "\r":
            page.column = 0
        elif char in "\n\v\f":
            self._line_feed()
        elif char == "\b":
            page.column = max(0, min(page.column, self._width - 1) - 1)
        elif char == "\t":
            page.column = min(self._width - 1, (page.column // TAB + 1) * TAB)

    def _line_feed(self) -> None:
        page = self._page
        if page.row == self._bottom:
            self._scroll(1)
        elif page.row < self._height - 1:
            page.row += 1

    def _scroll(self, count: int, top: int | None = None) -> None:
        """Moves the lines of the region up, or down when the count is negative."""
        top = self._top if top is None else top
        rows = self._page.rows
        region = rows[top : self._bottom + 1]
        count = max(-len(region), min(len(region), count))
        fresh = [self._blank_row() for _ in range(abs(count))]
        rows[top : self._bottom + 1] = region[count:] + fresh if count >= 0 else fresh + region[:count]

    def _escape(self, name: str) -> None:
        page = self._page
        if name == "7":
            page.saved = (page.row, page.column, page.pen)
        elif name == "8":
            page.row, page.column, page.pen = page.saved
            page.row, page.column = min(page.row, self._height - 1), min(page.column, self._width - 1)
        elif name in ("D", "E"):
            page.column = 0 if name == "E" else page.column
            self._line_feed()
        elif name == "M":
            if page.row == self._top:
                self._scroll(-1)
            else:
                page.row = max(0, page.row - 1)
        elif name in ("=", ">"):
            self._modes.keypad = name == "="
        elif name == "c":
            self.__init__(self._height, self._width)  # type: ignore[misc]  # the program asks for a fresh one

    def _sequence(self, text: str) -> None:
        final, body = text[-1], text[:-1]
        if body[:1] == "?":
            if final in "hl":
                self._set_modes(_numbers(body[1:], 0), is_on=final == "h")
        elif final == "m" and body[:1] not in (">", "<", "="):
            self._page.pen = _pen(self._page.pen, body)
        elif not body or body[-1].isdigit() or body[-1] == ";":
            self._act(final, _numbers(body, 0))

    def _act(self, final: str, numbers: list[int]) -> None:
        first = numbers[0]
        count = min(max(1, first), MAX_COLUMNS)
        if final in "ABCDEFGHdf`aesu":
            self._move(final, numbers, count)
        elif final in "JK":
            self._erase(final, first)
        elif final in "LMST":
            self._shift_lines(final, count)
        elif final in "@PX":
            self._shift_cells(final, count)
        elif final == "b":
            self._write(self._last * count)
        elif final == "r":
            top, bottom = max(1, first), (numbers[1] if len(numbers) > 1 and numbers[1] else self._height)
            if top < bottom <= self._height:
                self._top, self._bottom = top - 1, bottom - 1
                self._page.row = self._page.column = 0

    def _move(self, final: str, numbers: list[int], count: int) -> None:
        page = self._page
        row, column = page.row, min(page.column, self._width - 1)
        if final in "AF":
            row = max(self._top if row >= self._top else 0, row - count)
        elif final in "BEe":
            row = min(self._bottom if row <= self._bottom else self._height - 1, row + count)
        elif final in "Ca":
            column += count
        elif final == "D":
            column -= count
        elif final in "G`":
            column = count - 1
        elif final == "d":
            row = count - 1
        elif final in "Hf":
            row, column = count - 1, max(1, numbers[1] if len(numbers) > 1 else 1) - 1
        elif final == "s":
            page.saved = (row, column, page.pen)
        elif final == "u":
            row, column = page.saved[:2]
        if final in "EF":
            column = 0
        page.row, page.column = max(0, min(row, self._height - 1)), max(0, min(column, self._width - 1))

    def _erase(self, final: str, which: int) -> None:
        page = self._page
        column = min(page.column, self._width - 1)
        line = page.rows[page.row]
        start, end = {0: (column, self._width), 1: (0, column + 1), 2: (0, self._width)}.get(which, (0, 0))
        if final == "J" and which in (2, 3):
            if which == 2:
                page.rows[:] = self._blank_rows()
            return
        line[start:end] = [self._blank()] * (end - start)
        if final == "J":
            for index in range(page.row + 1, self._height) if which == 0 else range(page.row):
                page.rows[index] = self._blank_row()

    def _shift_lines(self, final: str, count: int) -> None:
        if final in "ST":
            self._scroll(count if final == "S" else -count)
        elif self._top <= self._page.row <= self._bottom:
            self._scroll(count if final == "M" else -count, self._page.row)
            self._page.column = 0

    def _shift_cells(self, final: str, count: int) -> None:
        line, column = self._page.rows[self._page.row], min(self._page.column, self._width - 1)
        count = min(count, self._width - column)
        blanks = [self._blank()] * count
        if final == "X":
            line[column : column + count] = blanks
        elif final == "P":
            line[column:] = line[column + count :] + blanks
        else:
            line[column:] = (blanks + line[column:])[: self._width - column]

    def _set_modes(self, numbers: list[int], *, is_on: bool) -> None:
        for number in numbers:
            if number in _ALTERNATE:
                self._switch(is_on=is_on)
            elif number == 7:
                self._modes.wraps = is_on
            elif number in _HANDED_ON and is_on:
                self._modes.on.add(number)
            elif number in _HANDED_ON:
                self._modes.on.discard(number)

    def _switch(self, *, is_on: bool) -> None:
        if is_on and not self._is_alternate:
            before = self._page
            self._other = before
            self._page = _Page(self._blank_rows(), before.row, before.column, before.pen)
        elif not is_on and self._is_alternate:
            self._page = self._other
        self._is_alternate = is_on
        self._top, self._bottom = 0, self._height - 1

    def _blank(self) -> Cell:
        return (" ", _background(self._page.pen))

    def _blank_row(self) -> list[Cell]:
        return [self._blank()] * self._width

    def _blank_rows(self) -> list[list[Cell]]:
        return [[BLANK] * self._width for _ in range(self._height)]

    # Output.

    def lines(self) -> list[str]:
        """What a person reads, without trailing blanks."""
        return ["".join(char for char, _ in row).rstrip() for row in self._page.rows]

    def drawing(self) -> bytes:
        """Bytes that draw this screen on a terminal of the same size, whatever was on it."""
        parts = ["\x1b[0m\x1b[?7h\x1b[r"]
        if self._is_alternate:
            parts += [*_drawn(self._other, self._height), "\x1b[?1049h"]
        parts += _drawn(self._page, self._height)
        if (self._top, self._bottom) != (0, self._height - 1):
            parts.append(f"\x1b[{self._top + 1};{self._bottom + 1}r")
        modes = self._modes
        for number in sorted(_HANDED_ON):
            if (number in modes.on) != (number in _ON_AT_FIRST):
                parts.append(f"\x1b[?{number}{'h' if number in modes.on else 'l'}")
        parts.append("" if modes.wraps else "\x1b[?7l")
        parts.append("\x1b=" if modes.keypad else "")
        parts.append(f"\x1b]2;{modes.title}\x07" if modes.title else "")
        page = self._page
        parts.append(f"\x1b[{page.row + 1};{min(page.column, self._width - 1) + 1}H{_shown(page.pen)}")
        return "".join(parts).encode()


def _drawn(page: _Page, height: int) -> list[str]:
    parts = ["\x1b[H\x1b[2J"]
    for index, row in enumerate(page.rows[:height]):
        end = len(row)
        while end and row[end - 1] == BLANK:
            end -= 1
        if not end:
            continue
        parts.append(f"\x1b[{index + 1};1H")
        pen = None
        for char, own in row[:end]:
            if own != pen:
                parts.append(_shown(own))
                pen = own
            parts.append(char)
        parts.append("\x1b[0m")
    return parts


def _bounded(rows: int, columns: int) -> tuple[int, int]:
    return max(1, min(rows or 24, MAX_ROWS)), max(2, min(columns or 80, MAX_COLUMNS))


def _width(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _numbers(text: str, default: int) -> list[int]:
    return [int(part) if part.isdigit() and len(part) < 6 else default for part in text.split(";")][:32]


def _pen(before: str, body: str) -> str:
    """The pen as parameters of SGR, `1|38;5;3`, in the order in which they were set; a reset forgets them."""
    words = body.split(";")[:32]
    pen = [word for word in before.split("|") if word]
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word in ("", "0", "00"):
            pen = []
            continue
        if word in ("38", "48", "58") and place < len(words):
            more = 2 if words[place] == "5" else 4
            word = ";".join([word, *words[place : place + more]])
            place += more
        if re.fullmatch(r"[\d;:]{1,40}", word):
            kind = _kind(word)
            pen = [each for each in pen if _kind(each) != kind]
            pen += [] if word in _ENDING else [word]
    return "|".join(pen[:12])


_ENDING = frozenset({"22", "23", "24", "25", "27", "28", "29", "39", "49", "59"})
_KINDS = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29", "21": "24"}


def _kind(word: str) -> str:
    """What a parameter of SGR sets, by the parameter that ends it."""
    head = re.split("[;:]", word)[0]
    if head in ("38", "48", "58"):
        return {"38": "39", "48": "49", "58": "59"}[head]
    if len(head) == 2 and head[0] in "349" and head[1] in "01234567":
        return "49" if head[0] == "4" else "39"
    if len(head) == 3 and head.startswith("10"):
        return "49"
    return _KINDS.get(head, head)


def _shown(pen: str) -> str:
    return f"\x1b[0;{pen.replace('|', ';')}m" if pen else "\x1b[0m"


def _background(pen: str) -> str:
    return "|".join(word for word in pen.split("|") if word and _kind(word) == "49")
