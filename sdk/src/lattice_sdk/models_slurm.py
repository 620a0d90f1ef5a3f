"""The Slurm commands, as the server answers them."""

from msgspec import Struct


class SlurmAnswer(Struct, frozen=True, kw_only=True):
    """What a Slurm command prints and how it ends; `needs` and `resume` ask its program to go on."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0
    needs: str = ""
    path: str = ""
    resume: str = ""
