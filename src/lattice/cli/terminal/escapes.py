"""What a person types at a terminal, with the keys that are meant for this program: `Enter ~ .` leaves, `Enter ~ ~` types a tilde."""

LEAVE = ord(".")
TILDE = ord("~")
_LINE_ENDS = frozenset(b"\r\n")


class Escapes:
    """Typed bytes in, bytes for the terminal out; `is_left` when its user wants to leave, and what follows is dropped."""

    def __init__(self) -> None:
        self.is_left = False
        self._at_line_start = True
        self._is_escaping = False

    def take(self, data: bytes) -> bytes:
        passed = bytearray()
        for byte in data:
            if self._is_escaping:
                self._is_escaping = False
                if byte == LEAVE:
                    self.is_left = True
                    break
                passed.append(TILDE)
                self._at_line_start = byte in _LINE_ENDS
                if byte != TILDE:
                    passed.append(byte)
            elif byte == TILDE and self._at_line_start:
                self._is_escaping = True
            else:
                passed.append(byte)
                self._at_line_start = byte in _LINE_ENDS
        return bytes(passed)
