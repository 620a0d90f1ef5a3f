"""The Slurm commands."""

from collections.abc import Mapping, Sequence

from lattice_sdk.models.slurm import SlurmAnswer
from lattice_sdk.operation import Steps, operation, write


class SlurmCalls:
    @operation
    def slurm_command(
        self,
        program: str,
        argv: Sequence[str] = (),
        *,
        cwd: str = "/",
        environment: Mapping[str, str] | None = None,
        script: str | None = None,
        script_path: str = "",
        host: str = "",
        uid: int = 0,
        gid: int = 0,
        umask: int = 0o022,
        resume: str = "",
        request_id: str = "",
    ) -> Steps[SlurmAnswer]:
        """What a Slurm command would print and end with. A refusal is an answer, too, with its text and code."""
        fields = {
            "program": program,
            "argv": list(argv),
            "cwd": cwd,
            "environment": dict(environment or {}),
            "script": script,
            "script_path": script_path,
            "host": host,
            "uid": uid,
            "gid": gid,
            "umask": umask,
            "resume": resume,
        }
        return write("POST", "/slurm/commands", SlurmAnswer, fields, request_id)
