"""The web page: a link that logs a browser in, and nodes over time."""

from lattice_sdk.models.web.page import Timeline, VclusterWeights, WebLink, WebLinkUse
from lattice_sdk.operation import Steps, at, operation, read, write


class WebCalls:
    @operation
    def make_web_link(self, *, request_id: str = "") -> Steps[WebLink]:
        """A link that logs a browser in as the caller, once and within a minute; `path` belongs behind the address of a server."""
        return write("POST", at("web", "links"), WebLink, {}, request_id)

    @operation
    def use_web_link(self, code: str, *, request_id: str = "") -> Steps[WebLinkUse]:
        """Uses up a link; servers do this for the browser that opened it."""
        return write("DELETE", at("web", "links", code), WebLinkUse, {}, request_id)

    @operation
    def vcluster_weights(self, name: str) -> Steps[VclusterWeights]:
        """The scheduling weights that are in force in a vCluster, which sum to 1."""
        return read(at("vclusters", name, "weights"), VclusterWeights)

    @operation
    def timeline(
        self,
        *,
        since: str = "",
        until: str = "",
        nodes: str = "",
        user: str = "",
        limit: int | None = None,
        tasks: bool = False,
    ) -> Steps[Timeline]:
        """Nodes over time: what ran, what runs, what is predicted to start, and what is reserved; tasks of groups are folded."""
        given = {"since": since, "until": until, "nodes": nodes, "user": user, "limit": str(limit or "")}
        given["tasks"] = "true" if tasks else ""
        return read(at("timeline"), Timeline, tuple((name, value) for name, value in given.items() if value))
