"""libbpf through ctypes: loads an object, attaches its programs, reads and writes its maps. Nothing is pinned.

Everything ends with the process: what is attached is held by file descriptors alone.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

LIBRARIES = ("libbpf.so.1", "libbpf.so.0")
_INFO_BYTES = 256
_RUN_TIME_AT = 192  # of run_time_ns in struct bpf_prog_info
_MAX_ERRNO = 4095
_RAW_TRACEPOINT = 23  # BPF_TRACE_RAW_TP: a tracepoint whose arguments have types
_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_PRINT = ctypes.CFUNCTYPE(_INT, _INT, _TEXT, _POINTER)
_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "bpf_object__open_file": (_POINTER, (_TEXT, _POINTER)),
    "bpf_object__load": (_INT, (_POINTER,)),
    "bpf_object__close": (None, (_POINTER,)),
    "bpf_object__next_program": (_POINTER, (_POINTER, _POINTER)),
    "bpf_object__find_map_fd_by_name": (_INT, (_POINTER, _TEXT)),
    "bpf_program__name": (_TEXT, (_POINTER,)),
    "bpf_program__section_name": (_TEXT, (_POINTER,)),
    "bpf_program__set_autoload": (_INT, (_POINTER, ctypes.c_bool)),
    "bpf_program__attach": (_POINTER, (_POINTER,)),
    "bpf_program__fd": (_INT, (_POINTER,)),
    "bpf_enable_stats": (_INT, (_INT,)),
    "bpf_obj_get_info_by_fd": (_INT, (_INT, _POINTER, ctypes.POINTER(ctypes.c_uint32))),
    "bpf_link__destroy": (_INT, (_POINTER,)),
    "bpf_map_lookup_elem": (_INT, (_INT, _POINTER, _POINTER)),
    "bpf_map_update_elem": (_INT, (_INT, _POINTER, _POINTER, ctypes.c_uint64)),
    "bpf_map_delete_elem": (_INT, (_INT, _POINTER)),
    "bpf_map_lookup_batch": (
        _INT,
        (_INT, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.POINTER(ctypes.c_uint32), _POINTER),
    ),
    "libbpf_num_possible_cpus": (_INT, ()),
    "libbpf_find_vmlinux_btf_id": (_INT, (_TEXT, _INT)),
}


class BpfUnavailable(Exception):
    """Why programs cannot be loaded here, in words for an administrator."""


def _library() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name, use_errno=True)
            for function, (result, arguments) in _SIGNATURES.items():
                found = getattr(library, function)
                found.restype, found.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return library
    raise BpfUnavailable("libbpf is not installed, or too old")


class Map:
    """One map, whose keys and values are bytes."""

    def __init__(self, library: ctypes.CDLL, descriptor: int, key: int, value: int, entries: int) -> None:
        self._library = library
        self._descriptor = descriptor
        self._key_size, self._value_size, self._entries = key, value, entries
        self._value = ctypes.create_string_buffer(value)
        self._keys: ctypes.Array[ctypes.c_char] | None = None
        self._values: ctypes.Array[ctypes.c_char] | None = None

    def get(self, key: bytes) -> bytes | None:
        failed = self._library.bpf_map_lookup_elem(self._descriptor, key, self._value)
        return None if failed else self._value.raw

    def set(self, key: bytes, value: bytes) -> bool:
        return not self._library.bpf_map_update_elem(self._descriptor, key, value, 0)

    def delete(self, key: bytes) -> None:
        self._library.bpf_map_delete_elem(self._descriptor, key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All of them, in one call of the kernel; nothing where it cannot do that."""
        if self._keys is None or self._values is None:
            self._keys = ctypes.create_string_buffer(self._key_size * self._entries)
            self._values = ctypes.create_string_buffer(self._value_size * self._entries)
        count, place = ctypes.c_uint32(self._entries), ctypes.create_string_buffer(64)
        failed = self._library.bpf_map_lookup_batch(
            self._descriptor, None, place, self._keys, self._values, ctypes.byref(count), None
        )
        if failed and ctypes.get_errno() != errno.ENOENT:  # which says that there are no more
            return
        for at in range(count.value):
            key = ctypes.string_at(ctypes.addressof(self._keys) + at * self._key_size, self._key_size)
            yield key, ctypes.string_at(ctypes.addressof(self._values) + at * self._value_size, self._value_size)


class Programs:
    """The programs of an object, attached; `missing` are those whose tracepoints this kernel does not have."""

    def __init__(self, path: Path) -> None:
        """Raises BpfUnavailable."""
        if sys.byteorder != "little":
            raise BpfUnavailable("the BPF program is for little-endian machines")
        if not os.path.exists("/sys/kernel/btf/vmlinux"):
            raise BpfUnavailable("the kernel has no BTF (/sys/kernel/btf/vmlinux)")
        self._library = _library()
        self._quiet = _PRINT(lambda _level, _format, _arguments: 0)
        self._library.libbpf_set_print(self._quiet)
        self._links: list[int] = []
        self.missing: list[str] = []
        self._object, failed = opened(self._library.bpf_object__open_file(os.fsencode(path), None))
        if failed:
            raise BpfUnavailable(f"libbpf cannot read {path.name}: {os.strerror(failed)}")
        try:
            # The kernel writes a value for each into one buffer, so a guess would not do.
            self.cpus = int(self._library.libbpf_num_possible_cpus())
            if self.cpus < 1:
                raise BpfUnavailable("the number of CPUs cannot be found")
            self._attach()
        except BpfUnavailable:
            self.close()
            raise

    def _attach(self) -> None:
        programs = list(self._programs())
        wanted = []
        for program in programs:
            tracepoint = self._library.bpf_program__section_name(program).partition(b"/")[2]
            if self._library.libbpf_find_vmlinux_btf_id(tracepoint, _RAW_TRACEPOINT) > 0:
                wanted.append(program)
            else:
                self.missing.append(tracepoint.decode())
                self._library.bpf_program__set_autoload(program, False)
        failed = self._library.bpf_object__load(self._object)
        if failed:
            raise BpfUnavailable(_refusal(-failed))
        for program in wanted:
            link, failed = opened(self._library.bpf_program__attach(program))
            if link is None:
                raise BpfUnavailable(_refusal(failed))
            self._links.append(link)

    def _programs(self) -> Iterator[int]:
        program = self._library.bpf_object__next_program(self._object, None)
        while program:
            yield program
            program = self._library.bpf_object__next_program(self._object, program)

    def map(self, name: str, key: int, value: int, entries: int) -> Map:
        """Raises BpfUnavailable where the object has no such map."""
        descriptor = self._library.bpf_object__find_map_fd_by_name(self._object, name.encode())
        if descriptor < 0:
            raise BpfUnavailable(f"the BPF program has no map {name}")
        return Map(self._library, descriptor, key, value, entries)

    def clock(self) -> int:
        """The kernel measures how long programs run until the descriptor is closed; negative where it cannot."""
        return int(self._library.bpf_enable_stats(0))

    def run_time_ns(self) -> int:
        """How long all programs have run while that was measured."""
        total = 0
        for program in self._programs():
            info, size = ctypes.create_string_buffer(_INFO_BYTES), ctypes.c_uint32(_INFO_BYTES)
            descriptor = self._library.bpf_program__fd(program)
            if descriptor >= 0 and not self._library.bpf_obj_get_info_by_fd(descriptor, info, ctypes.byref(size)):
                total += int.from_bytes(info.raw[_RUN_TIME_AT : _RUN_TIME_AT + 8], sys.byteorder)
        return total

    def close(self) -> None:
        """Detaches; harmless when repeated."""
        for link in self._links:
            self._library.bpf_link__destroy(link)
        self._links.clear()
        if self._object:
            self._library.bpf_object__close(self._object)
            self._object = None


def opened(pointer: int | None) -> tuple[int | None, int]:
    """A pointer of libbpf, or the error: libbpf 1 says it by NULL and errno, those before by an address that none can be."""
    if not pointer:
        return None, ctypes.get_errno() or errno.EINVAL
    number = (1 << 8 * ctypes.sizeof(_POINTER)) - pointer
    return (None, number) if number <= _MAX_ERRNO else (pointer, 0)


def _refusal(number: int) -> str:
    if number in (errno.EPERM, errno.EACCES):
        return "the kernel does not permit BPF programs to this agent (it needs root, or CAP_BPF and CAP_PERFMON)"
    return f"the kernel does not take the BPF program: {os.strerror(number)}"
