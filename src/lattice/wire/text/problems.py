"""What is wrong with a request, in words for the person who wrote it."""


class BadField(ValueError):
    """One field of a request cannot be accepted; `field` is its path as it was written."""

    def __init__(self, field: str, message: str, *, current: str = "", limit: str = "", hint: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.current = current
        self.limit = limit
        self.hint = hint
