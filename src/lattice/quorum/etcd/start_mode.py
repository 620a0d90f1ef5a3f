"""How one of several servers starts: bootstraps a quorum, joins one, or continues."""

from typing import Literal

StartMode = Literal["bootstrap", "bootstrap-if-new", "join", "restart"]
