"""The registry of services: list, look up, open."""

from lattice_sdk.models.records import Page
from lattice_sdk.operation import Steps, at, everything, given, operation, read, write
from lattice_sdk.registry.models import OpenedService, Service, ServiceLookup

POLL_MARGIN_S = 10.0  # beyond the time that the server takes for a long poll


class ServiceCalls:
    @operation
    def list_services(self, *, tenant: str = "") -> Steps[list[Service]]:
        """The services of your tenants, by tenant and name."""
        return everything("/services", Page[Service], given(tenant=tenant))

    @operation
    def lookup_service(
        self, name: str, *, tenant: str = "", version: str = "", timeout_s: float = 0.0
    ) -> Steps[ServiceLookup]:
        """The endpoints of a service. With a timeout, the answer comes when it differs from `version`, or with the time."""
        asked = given(tenant=tenant, version=version, timeout=f"{timeout_s:g}" if timeout_s else "")
        return read(
            at("services", name), ServiceLookup, asked, timeout_s=timeout_s + POLL_MARGIN_S if timeout_s else None
        )

    @operation
    def open_service(
        self, name: str, *, tenant: str = "", path: str = "/", keep_path: bool = False, request_id: str = ""
    ) -> Steps[OpenedService]:
        """An address for a browser, good once and for a minute, that leads to a service."""
        fields = {"tenant": tenant, "path": path, "keep_path": keep_path}
        return write("POST", at("services", name, "open"), OpenedService, fields, request_id)
