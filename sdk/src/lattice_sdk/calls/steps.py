"""Steps: launch, look, feed, signal, end. Following one is `Client.follow_step`."""

from binascii import b2a_base64

import msgspec

from lattice_sdk.models.records import Page
from lattice_sdk.models.runs import LiveUsage
from lattice_sdk.models.steps import InputTaken, OpenedPort, OpenPort, Step, StepRequest, TerminalRequest
from lattice_sdk.operation import Steps, at, everything, operation, read, write


class StepCalls:
    @operation
    def launch_step(self, allocation_id: str, request: StepRequest, *, request_id: str = "") -> Steps[Step]:
        """Starts tasks on the nodes of a running allocation; a second call with the same `request_id` gives the same step."""
        fields = msgspec.to_builtins(request)
        return write("POST", at("allocations", allocation_id, "steps"), Step, fields, request_id)

    @operation
    def attach(self, allocation_id: str, request: TerminalRequest, *, request_id: str = "") -> Steps[Step]:
        """Opens a terminal on a node of a running allocation; `follow_step`, `feed_step` and `resize_step` serve it."""
        fields = msgspec.to_builtins(request)
        return write("POST", at("allocations", allocation_id, "attach"), Step, fields, request_id)

    @operation
    def share_terminal(self, allocation_id: str, step: int, user: str, *, request_id: str = "") -> Steps[Step]:
        """Lets another user of the tenant watch a terminal, read-only, until `unshare_terminal` or its end."""
        path = at("allocations", allocation_id, "steps", str(step), "watchers")
        return write("POST", path, Step, {"user": user}, request_id)

    @operation
    def unshare_terminal(self, allocation_id: str, step: int, user: str, *, request_id: str = "") -> Steps[Step]:
        """The user may no longer watch, and is cut off within a second."""
        path = at("allocations", allocation_id, "steps", str(step), "watchers", user)
        return write("DELETE", path, Step, None, request_id)

    @operation
    def list_steps(self, allocation_id: str) -> Steps[list[Step]]:
        """The steps of an allocation, by number."""
        return everything(at("allocations", allocation_id, "steps"), Page[Step])

    @operation
    def list_ports(self, allocation_id: str, *, node: str = "") -> Steps[list[OpenPort]]:
        """The ports on which processes of a running allocation listen, on its first node or another one of it."""
        path = at("allocations", allocation_id, "ports")
        return everything(path, Page[OpenPort], (("node", node),) if node else ())

    @operation
    def open_port(
        self,
        allocation_id: str,
        port: int | str,
        *,
        node: str = "",
        path: str = "/",
        keep_path: bool = False,
        request_id: str = "",
    ) -> Steps[OpenedPort]:
        """An address for a browser, good once and for a minute, that leads to a web page of a running allocation."""
        fields = {"port": str(port), "node": node, "path": path, "keep_path": keep_path}
        return write("POST", at("allocations", allocation_id, "open"), OpenedPort, fields, request_id)

    @operation
    def live_usage(self, allocation_id: str) -> Steps[LiveUsage]:
        """What a running allocation and its steps use at this moment, node by node."""
        return read(at("allocations", allocation_id, "usage"), LiveUsage)

    @operation
    def get_step(self, allocation_id: str, step: int) -> Steps[Step]:
        """One step, as it runs or as it ended."""
        return read(at("allocations", allocation_id, "steps", str(step)), Step)

    @operation
    def feed_step(
        self,
        allocation_id: str,
        step: int,
        offset: int,
        data: bytes,
        *,
        eof: bool = False,
        client_name: str = "",
        task: int | None = None,
    ) -> Steps[InputTaken]:
        """Hands input to the tasks that take it, or to one of them; the answer says how much of it was taken since the beginning.

        At a terminal every client, by a name of its own choice, counts its own bytes.
        """
        fields = {"offset": offset, "data": b2a_base64(data, newline=False).decode(), "eof": eof}
        fields |= {"client": client_name} if client_name else {}
        fields |= {"task": task} if task is not None else {}
        return write("POST", at("allocations", allocation_id, "steps", str(step), "input"), InputTaken, fields)

    @operation
    def signal_step(self, allocation_id: str, step: int, signal: int) -> Steps[Step]:
        """Sends a signal to all tasks."""
        path = at("allocations", allocation_id, "steps", str(step), "signal")
        return write("POST", path, Step, {"signal": signal})

    @operation
    def resize_step(
        self, allocation_id: str, step: int, rows: int, columns: int, *, client_name: str = ""
    ) -> Steps[Step]:
        """Tells the step's terminal its size, or that of the window of one client at it."""
        path = at("allocations", allocation_id, "steps", str(step), "window")
        fields = {"rows": rows, "columns": columns} | ({"client": client_name} if client_name else {})
        return write("POST", path, Step, fields)

    @operation
    def end_step(self, allocation_id: str, step: int) -> Steps[Step]:
        """Ends all tasks."""
        return write("DELETE", at("allocations", allocation_id, "steps", str(step)), Step)
