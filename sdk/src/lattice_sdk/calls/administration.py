"""Tenants, vClusters, projects, reservations, settings."""

from collections.abc import Mapping

from lattice_sdk.models.records import Allocation, Page, Project, Reservation, Setting, Tenant, Usage, Vcluster
from lattice_sdk.operation import Steps, at, everything, given, items_of, operation, read, write


class AdministrationCalls:
    @operation
    def list_tenants(self) -> Steps[list[Tenant]]:
        """Your tenants, or all of them if you may see all."""
        return everything("/tenants", Page[Tenant])

    @operation
    def get_tenant(self, name: str) -> Steps[Tenant]:
        """Get one tenant with its limits and current use."""
        return read(at("tenants", name), Tenant)

    @operation
    def create_tenant(self, fields: Mapping[str, object], *, request_id: str = "") -> Steps[Tenant]:
        """Create a tenant."""
        return write("POST", "/tenants", Tenant, fields, request_id)

    @operation
    def update_tenant(self, name: str, changes: Mapping[str, object], *, request_id: str = "") -> Steps[Tenant]:
        """Change the fields that are given; None takes a limit away."""
        return write("PUT", at("tenants", name), Tenant, changes, request_id)

    @operation
    def tenant_usage(self, name: str, days: int | None = None, *, user: str = "", project: str = "") -> Steps[Usage]:
        """What a tenant used, user by user."""
        return read(at("tenants", name, "usage"), Usage, given(days=days, user=user, project=project))

    @operation
    def user_usage(self, user: str = "", days: int | None = None, *, project: str = "") -> Steps[Usage]:
        """What one user used; oneself, unless another is named."""
        return read("/usage", Usage, given(days=days, user=user, project=project))

    @operation
    def list_vclusters(self) -> Steps[list[Vcluster]]:
        """All vClusters."""
        return everything("/vclusters", Page[Vcluster])

    @operation
    def get_vcluster(self, name: str) -> Steps[Vcluster]:
        """Get one vCluster with its limits, nodes and current use."""
        return read(at("vclusters", name), Vcluster)

    @operation
    def create_vcluster(self, fields: Mapping[str, object], *, request_id: str = "") -> Steps[Vcluster]:
        """Create a vCluster."""
        return write("POST", "/vclusters", Vcluster, fields, request_id)

    @operation
    def update_vcluster(self, name: str, changes: Mapping[str, object], *, request_id: str = "") -> Steps[Vcluster]:
        """Change the fields that are given."""
        return write("PUT", at("vclusters", name), Vcluster, changes, request_id)

    @operation
    def vcluster_queue(self, name: str, *, limit: int = 100) -> Steps[list[Allocation]]:
        """What is pending, in the order in which it is considered."""
        return items_of(read(at("vclusters", name, "queue"), Page[Allocation], [("limit", str(limit))]))

    @operation
    def list_projects(self, *, tenant: str = "") -> Steps[list[Project]]:
        """The projects of one's tenants, or of one of them."""
        return everything("/projects", Page[Project], given(tenant=tenant))

    @operation
    def create_project(self, fields: Mapping[str, object], *, request_id: str = "") -> Steps[Project]:
        """Create a project in a tenant."""
        return write("POST", "/projects", Project, fields, request_id)

    @operation
    def update_project(
        self, tenant: str, name: str, changes: Mapping[str, object], *, request_id: str = ""
    ) -> Steps[Project]:
        """Change the fields that are given."""
        return write("PUT", at("projects", tenant, name), Project, changes, request_id)

    @operation
    def list_reservations(self) -> Steps[list[Reservation]]:
        """All reservations, those that come first at the top."""
        return everything("/reservations", Page[Reservation])

    @operation
    def get_reservation(self, name: str) -> Steps[Reservation]:
        """Get one reservation."""
        return read(at("reservations", name), Reservation)

    @operation
    def create_reservation(self, fields: Mapping[str, object], *, request_id: str = "") -> Steps[Reservation]:
        """Keep nodes from `start` to `end` (or for `duration`), for `tenants` and `users`, or for maintenance."""
        return write("POST", "/reservations", Reservation, fields, request_id)

    @operation
    def delete_reservation(self, name: str, *, request_id: str = "") -> Steps[None]:
        """Delete a reservation; running work continues."""
        yield from write("DELETE", at("reservations", name), dict[str, object], None, request_id)

    @operation
    def delete_tenant(self, name: str, *, request_id: str = "") -> Steps[None]:
        """Delete a tenant without work, projects and reservations; its past work stays in the history."""
        yield from write("DELETE", at("tenants", name), dict[str, object], None, request_id)

    @operation
    def delete_project(self, tenant: str, name: str, *, request_id: str = "") -> Steps[None]:
        """Delete a project without work; its past work stays in the history."""
        yield from write("DELETE", at("projects", tenant, name), dict[str, object], None, request_id)

    @operation
    def delete_vcluster(self, name: str, *, request_id: str = "") -> Steps[None]:
        """Delete a vCluster without work; its baseline goes with it."""
        yield from write("DELETE", at("vclusters", name), dict[str, object], None, request_id)

    @operation
    def delete_node(self, node: str, *, request_id: str = "") -> Steps[None]:
        """Delete a node that is out of service and whose agent is stopped; it is a stranger if it comes back."""
        yield from write("DELETE", at("nodes", node), dict[str, object], None, request_id)

    @operation
    def list_settings(self) -> Steps[list[Setting]]:
        """List all settings with their current values."""
        return everything("/settings", Page[Setting])

    @operation
    def get_setting(self, key: str) -> Steps[Setting]:
        """Get one setting."""
        return read(at("settings", key), Setting)

    @operation
    def set_setting(self, key: str, value: str, *, request_id: str = "") -> Steps[Setting]:
        """Change one setting."""
        return write("PUT", at("settings", key), Setting, {"value": value}, request_id)
