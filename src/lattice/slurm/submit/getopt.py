"""Parses a command line like getopt_long: unambiguous prefixes, joined short options, `--name=value` and `--name value`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lattice.slurm.faults import usage_fault
from lattice.slurm.submit.options import Option, Takes

MAX_OPTIONS = 500


class Given(NamedTuple):
    """An option as typed; the value of one that takes none is empty."""

    option: Option
    value: str


class Line(NamedTuple):
    """The options, and the words from the first non-option on."""

    given: tuple[Given, ...]
    words: tuple[str, ...]


class Grammar:
    """The options of one program."""

    def __init__(self, program: str, options: Iterable[Option]) -> None:
        self.program = program
        self.long: Mapping[str, Option] = {name: option for option in options for name in (option.name, *option.also)}
        self.short: Mapping[str, Option] = {option.short: option for option in options if option.short}

    def read(self, words: Sequence[str]) -> Line:
        """Options up to the first non-option, as all of Slurm's programs parse their line."""
        given, at, _ = self.options(words, 0)
        return Line(tuple(given), tuple(words[at:]))

    def options(self, words: Sequence[str], at: int) -> tuple[list[Given], int, bool]:
        """The options from there on, the position of the first non-option, and whether `--` precedes it."""
        given: list[Given] = []
        while at < len(words):
            word = words[at]
            if word == "--":
                return given, at + 1, True
            if not word.startswith("-") or word == "-":
                break
            at += 1
            following = words[at] if at < len(words) else None
            found, took = self._long(word, following) if word.startswith("--") else self._short(word, following)
            given += found
            if len(given) > MAX_OPTIONS:
                raise usage_fault(self.program, f"more than {MAX_OPTIONS} options")
            at += took
        return given, at, False

    def find(self, name: str, word: str) -> Option:
        """The long option with this name or unambiguous prefix; `word` is the typed word."""
        exact = self.long.get(name)
        if exact is not None:
            return exact
        near = {full: option for full, option in self.long.items() if full.startswith(name)}
        if not near:
            raise usage_fault(self.program, f"unrecognized option '{word}'")
        if len({option.name for option in near.values()}) > 1:
            names = " ".join(f"'--{full}'" for full in near)
            raise usage_fault(self.program, f"option '{word}' is ambiguous; possibilities: {names}")
        return next(iter(near.values()))

    def _long(self, word: str, following: str | None) -> tuple[list[Given], int]:
        name, separator, value = word[2:].partition("=")
        option = self.find(name, word)
        if separator:
            if option.takes is Takes.NOTHING:
                raise usage_fault(self.program, f"option '--{option.name}' doesn't allow an argument")
            return [Given(option, value)], 0
        if option.takes is not Takes.VALUE:
            return [Given(option, "")], 0
        if following is None:
            raise usage_fault(self.program, f"option '--{option.name}' requires an argument")
        return [Given(option, following)], 1

    def _short(self, word: str, following: str | None) -> tuple[list[Given], int]:
        """One or several joined options; the first that takes a value takes the rest of the word, or the next word."""
        given: list[Given] = []
        for place, letter in enumerate(word[1:], start=1):
            option = self.short.get(letter)
            if option is None:
                raise usage_fault(self.program, f"invalid option -- '{letter}'")
            if option.takes is Takes.NOTHING:
                given.append(Given(option, ""))
                continue
            rest = word[place + 1 :]
            if rest or option.takes is Takes.MAYBE:
                return [*given, Given(option, rest)], 0
            if following is None:
                raise usage_fault(self.program, f"option requires an argument -- '{letter}'")
            return [*given, Given(option, following)], 1
        return given, 0
