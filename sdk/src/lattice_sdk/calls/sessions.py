"""Sessions: request nodes to work on by hand, list them, open their shell, end them."""

from collections.abc import Mapping

from lattice_sdk.models.moments import with_texts
from lattice_sdk.models.records import Page, Submission
from lattice_sdk.models.sessions import Session
from lattice_sdk.models.steps import Step
from lattice_sdk.operation import Steps, at, everything, given, operation, read, write
from lattice_sdk.specification import AllocationSpec


class SessionCalls:
    @operation
    def create_session(self, wanted: Submission | AllocationSpec, *, request_id: str = "") -> Steps[Session]:
        """The new session: a submission without a command. A second call with the same `request_id` gives the same one."""
        fields = wanted.submission() if isinstance(wanted, AllocationSpec) else wanted
        return write("POST", "/sessions", Session, with_texts(fields), request_id)

    @operation
    def list_sessions(
        self, *, user: str = "", tenant: str = "", state: str = "", all: bool = False
    ) -> Steps[list[Session]]:
        """Sessions, newest first; with `all` also those that have ended."""
        asked = given(user=user, tenant=tenant, state=state, all="true" if all else "")
        return everything("/sessions", Page[Session], asked)

    @operation
    def get_session(self, session_id: str) -> Steps[Session]:
        """One session with its terminals."""
        return read(at("sessions", session_id), Session)

    @operation
    def end_session(self, session_id: str, *, request_id: str = "") -> Steps[Session]:
        """Ends what runs in the session, and gives its nodes back."""
        return write("DELETE", at("sessions", session_id), Session, None, request_id)

    @operation
    def open_session_terminal(
        self,
        session_id: str,
        *,
        environment: Mapping[str, str] = {},
        rows: int = 0,
        columns: int = 0,
        keep: bool = False,
        request_id: str = "",
    ) -> Steps[Step]:
        """The shell of a running session, opened by the first call; the session ends with it, and with its exit code."""
        fields = {"environment": dict(environment), "rows": rows, "columns": columns, "keep": keep}
        return write("POST", at("sessions", session_id, "terminal"), Step, fields, request_id)
