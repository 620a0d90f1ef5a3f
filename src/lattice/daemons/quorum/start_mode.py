"""How a server that shares its log comes to its member: begins a quorum, joins one, or goes on."""

from typing import Literal

StartMode = Literal["bootstrap", "bootstrap-if-new", "join", "restart"]
