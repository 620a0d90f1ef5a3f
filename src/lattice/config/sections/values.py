"""Types of single keys, with their bounds."""

from typing import Annotated

from msgspec import Meta


class DurationText:
    """Marks a number of seconds that may be written as text: 500ms, 10s, 5m, 1h30m."""


Period = Annotated[float, Meta(gt=0, le=10 * 365 * 86400), DurationText()]
Delay = Annotated[float, Meta(ge=0, le=10 * 365 * 86400), DurationText()]
Count = Annotated[int, Meta(ge=1)]
ViewPath = Annotated[str, Meta(pattern=r"^/\S*$", max_length=1024)]
Url = Annotated[str, Meta(pattern=r"^(https?://\S+)?$")]
Limit = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Listen = Annotated[str, Meta(pattern=r"^(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5}$")]
