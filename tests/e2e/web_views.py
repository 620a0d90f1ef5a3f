"""Every view of the web page, and something of everything for them to show."""

from lattice.testing import LocalCluster

NODES = 3


def prepared(cluster: LocalCluster) -> dict[str, str]:
    """Something of everything for the views to show."""
    running = cluster.submit("sleep 600", name="shown")["id"]
    cluster.wait_state(running, "Running")
    service = cluster.submit(
        "sleep 600", name="served", lifecycle={"type": "unbounded"}, expose=[{"name": "front", "port": 0}]
    )["id"]
    cluster.wait_state(service, "Running")
    ended = cluster.run(["sh", "-c", "echo done"], name="ended")["id"]
    waiting = cluster.submit("true", name="waits", resources={"nodes": NODES})["id"]
    group = cluster.submit("true", name="sweep", tasks="0-4")["id"]
    dag = cluster.post(
        "/dags",
        {
            "name": "flow",
            "allocations": [
                {"id": "a", "entrypoint": "true"},
                {"id": "b", "entrypoint": "true", "depends_on": "a:success"},
            ],
        },
    )
    return {
        "running": running,
        "waiting": waiting,
        "ended": ended,
        "group": group,
        "service": service,
        "dag": dag["id"],
    }


def views(found: dict[str, str]) -> list[str]:
    return [
        "allocations",
        "allocations?q=state:running",
        f"allocations/{found['waiting']}",
        f"allocations/{found['ended']}",
        f"allocations/{found['group']}",
        f"allocations/{found['service']}",
        "submit",
        "timeline",
        "nodes",
        "nodes?by=load",
        "nodes/n1",
        "dags",
        f"dags/{found['dag']}",
        "services",
        "services/default/front",
        "usage",
        "nodes?by=topology",
        *(
            f"admin?part={part}"
            for part in ("servers", "alerts", "reservations", "tenants", "weights", "settings", "audit")
        ),
        f"allocations/{found['running']}/terminal",
    ]
