"""How a server that shares its log comes to its member: starts a quorum, joins one, or continues."""

from typing import Literal

StartMode = Literal["bootstrap", "bootstrap-if-new", "join", "restart"]
