"""Signals by name or number, as the commands accept them."""

import re

NUMBERS = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "ILL": 4,
    "TRAP": 5,
    "ABRT": 6,
    "BUS": 7,
    "FPE": 8,
    "KILL": 9,
    "USR1": 10,
    "SEGV": 11,
    "USR2": 12,
    "PIPE": 13,
    "ALRM": 14,
    "TERM": 15,
    "STKFLT": 16,
    "CHLD": 17,
    "CONT": 18,
    "STOP": 19,
    "TSTP": 20,
    "TTIN": 21,
    "TTOU": 22,
    "URG": 23,
    "XCPU": 24,
    "XFSZ": 25,
    "VTALRM": 26,
    "PROF": 27,
    "WINCH": 28,
    "IO": 29,
    "PWR": 30,
    "SYS": 31,
}
NAMES = {number: name for name, number in reversed(NUMBERS.items())}
KILL = 9
LAST = 64
_WORD = re.compile(r"(?:SIG)?([A-Z0-9]+)$")


def parse_signal(text: str) -> int | None:
    """`USR1`, `SIGUSR1`, `usr1` or `10`; None for anything else."""
    found = _WORD.match(text.strip().upper())
    if found is None:
        return None
    word = found[1]
    if word.isascii() and word.isdigit():
        number = int(word) if len(word) < 4 else 0
        return number if 0 < number <= LAST else None
    return NUMBERS.get(word)


def signal_name(number: int) -> str:
    """`USR1`; the number of one without a name."""
    return NAMES.get(number, str(number))
