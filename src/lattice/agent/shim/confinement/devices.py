"""Which device files the processes of a group may open: a small eBPF program on its v2 group, or the v1 `devices` controller.

The program is made here, instruction by instruction, loaded once for each distinct list and attached to every group that has this list;
it also holds for the groups inside, and goes with the group. Nothing about it is left behind by a shim that is killed.
To make a device file is not to open it, so making them stays permitted, as container runtimes need it.
Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from lattice.agent.shim.hierarchies import write_text

MAX_RULES = 512
KEPT_PROGRAMS = 64
ANY = -1
MAX_MAJOR = (1 << 12) - 1
MAX_MINOR = (1 << 20) - 1

_SYS_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}.get(os.uname().machine, -1)
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE, _CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_ATTR_BYTES = 128
_TYPES = {"b": 1, "c": 2}
_MKNOD = 1

# Operations of the machine: class, source and kind in one byte.
_LOAD_WORD, _MOVE, _MOVE_REGISTER, _AND, _SHIFT_RIGHT = 0x61, 0xB7, 0xBF, 0x57, 0x77
_JUMP_UNLESS_EQUAL, _EXIT = 0x55, 0x95

Rule = tuple[int, int, int]

_libc = ctypes.CDLL(None, use_errno=True)


def parse_rule(text: object) -> Rule:
    """`c 1:3`, or `c 136:*` for all of a driver: kind, major, minor. Raises ValueError."""
    kind, _, numbers = str(text).partition(" ")
    major, _, minor = numbers.partition(":")
    is_known = isinstance(text, str) and kind in _TYPES and major.isdigit() and (minor == "*" or minor.isdigit())
    if not is_known or int(major) > MAX_MAJOR or (minor != "*" and int(minor) > MAX_MINOR):
        raise ValueError(f"not a device: {text!r}")
    return _TYPES[kind], int(major), ANY if minor == "*" else int(minor)


def rule_text(rule: Rule) -> str:
    """As the files of v1 have it."""
    kind, major, minor = rule
    letter = next(letter for letter, number in _TYPES.items() if number == kind)
    return f"{letter} {major}:{'*' if minor == ANY else minor}"


def assemble(rules: tuple[Rule, ...]) -> bytes:
    """A program that answers 1 for these devices and 0 for all others."""
    code = [
        _instruction(_LOAD_WORD, 2, 1, 0),  # r2 = access << 16 | kind
        _instruction(_MOVE_REGISTER, 3, 2),
        _instruction(_AND, 2, immediate=0xFFFF),
        _instruction(_SHIFT_RIGHT, 3, immediate=16),
        _instruction(_LOAD_WORD, 4, 1, 4),  # r4 = major
        _instruction(_LOAD_WORD, 5, 1, 8),  # r5 = minor
        _instruction(_JUMP_UNLESS_EQUAL, 3, 0, 2, _MKNOD),
        *_ANSWER_YES,
    ]
    for kind, major, minor in rules:
        tests = [(2, kind), (4, major)] + ([(5, minor)] if minor != ANY else [])
        for place, (register, value) in enumerate(tests):
            beyond = len(tests) - place - 1 + len(_ANSWER_YES)
            code.append(_instruction(_JUMP_UNLESS_EQUAL, register, 0, beyond, value))
        code.extend(_ANSWER_YES)
    return b"".join((*code, _instruction(_MOVE, 0, immediate=0), _instruction(_EXIT)))


def _instruction(operation: int, target: int = 0, source: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
    return struct.pack("=BBhi", operation, target | source << 4, offset, immediate)


_ANSWER_YES = (_instruction(_MOVE, 0, immediate=1), _instruction(_EXIT))


def _bpf(command: int, attributes: bytes) -> int:
    if _SYS_BPF < 0:
        raise OSError(errno.ENOSYS, "the number of bpf(2) is not known for this architecture")
    buffer = ctypes.create_string_buffer(attributes.ljust(_ATTR_BYTES, b"\0"), _ATTR_BYTES)
    result = int(_libc.syscall(ctypes.c_long(_SYS_BPF), ctypes.c_int(command), buffer, ctypes.c_uint(_ATTR_BYTES)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot confine devices: {os.strerror(code)}")
    return result


def load(rules: tuple[Rule, ...]) -> int:
    """A descriptor of the program for these devices. Raises OSError."""
    code = ctypes.create_string_buffer(assemble(rules))
    license_text = ctypes.create_string_buffer(b"GPL")
    count = (len(code) - 1) // 8
    addresses = ctypes.addressof(code), ctypes.addressof(license_text)
    return _bpf(_PROG_LOAD, struct.pack("=IIQQ", _PROG_TYPE_CGROUP_DEVICE, count, *addresses))


class DeviceGate:
    """How this machine confines devices: `bpf`, `v1`, or not at all (empty)."""

    __slots__ = ("_programs", "way")

    def __init__(self) -> None:
        self.way = ""
        self._programs: dict[tuple[Rule, ...], int] = {}  # loaded programs, the one that was used last at the end

    def probe(self, folder: str, *, has_v1: bool) -> bool:
        """Whether and how it can be done; tries on a group of its own inside `folder`."""
        trial = f"{folder}/device-trial"
        try:
            os.makedirs(trial, 0o755, exist_ok=True)
            try:
                self.attach(trial, ())
                self.way = "bpf"
            finally:
                os.rmdir(trial)
        except OSError:
            self.way = "v1" if has_v1 else ""
        return bool(self.way)

    def attach(self, folder: str, rules: tuple[Rule, ...]) -> None:
        """From now on the processes of the group open no other devices. Raises OSError."""
        program = self._programs.pop(rules, -1)
        if program < 0:
            program = load(rules)
            if len(self._programs) >= KEPT_PROGRAMS:
                os.close(self._programs.pop(next(iter(self._programs))))
        self._programs[rules] = program
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, program, _CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)


def write_v1(folder: str, rules: tuple[Rule, ...]) -> None:
    """The same for a group of the v1 controller. Raises OSError."""
    write_text(f"{folder}/devices.deny", "a")
    for line in ("c *:* m", "b *:* m", *(f"{rule_text(rule)} rw" for rule in rules)):
        write_text(f"{folder}/devices.allow", line)
