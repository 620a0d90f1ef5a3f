"""Requests as large as their limits allow, each of a kind that once was, or could be, expensive; and a state that makes them so."""

import http.client
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from lattice.wire.pb import allocations_pb2 as pb

ALLOCATIONS, BATCH = 10_000, 500
_NAMES = ",".join(f"node{number:05}" for number in range(10_000))
_NODES = {"constraints": {"nodes": "n[0-9998]"}}
_SUBMISSION: dict[str, Any] = {"entrypoint": ["true"], "hold": True}
_PIECES = ",".join(str(number) for number in range(0, 2_000, 2))


@dataclass(frozen=True)
class Asking:
    """Asks one server; answers are read and thrown away, refusals are as good as any other."""

    port: int
    grpc_port: int
    token: str

    def rest(self, method: str, path: str, body: object = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, f"/api/v1{path}", sent, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def slurm(self, program: str, *argv: str, script: str = "") -> int:
        body = {"program": program, "argv": list(argv)} | ({"script": script} if script else {})
        return self.rest("POST", "/slurm/commands", body)

    def grpc(self, method: str, request: bytes) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options) as channel:
            call = channel.unary_unary(f"/lattice.v1.AllocationService/{method}", None, None)
            try:
                call(request, metadata=(("authorization", f"Bearer {self.token}"),), timeout=120)
            except grpc.RpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED):
                    raise


def prepare(asking: Asking) -> None:
    """A large task group and many allocations that wait."""
    asking.rest("POST", "/allocations", {**_SUBMISSION, "tasks": "0-99999"})
    for _ in range(ALLOCATIONS // BATCH):
        if asking.rest("POST", "/allocations/batch", {"submissions": [_SUBMISSION] * BATCH}) >= 300:
            raise RuntimeError("the allocations were not taken")


def heaviest(asking: Asking) -> Iterator[tuple[str, Callable[[], object]]]:
    """What it is, and how to ask for it."""
    yield from _submissions(asking)
    yield from _several(asking)
    yield from _listings(asking)
    yield from _slurm(asking)
    yield from _grpc(asking)


def _submissions(asking: Asking) -> Iterator[tuple[str, Callable[[], object]]]:
    noise = random.Random(1).randbytes(700_000).hex()
    kinds: dict[str, dict[str, Any]] = {
        "script that compresses": {"entrypoint": None, "script": "#!/bin/sh\n" + "true\n" * 700_000},
        "script that does not": {"entrypoint": None, "script": "#!/bin/sh\n# " + noise},
        "arguments": {"entrypoint": ["x" * 400] * 9_900},
        "environment": {"environment": {f"V{number}": "x" * 900 for number in range(4_000)}},
        "walltime": {"lifecycle": {"walltime": "1" * 4_000_000 + "x"}},
        "nodes folded": {"resources": _NODES},
        "nodes with long names": {"resources": {"constraints": {"nodes": "x" * 120 + "[0-9998]"}}},
        "nodes unfolded": {"resources": {"constraints": {"nodes": _NAMES}}},
        "commas for nodes": {"resources": {"constraints": {"nodes": "," * 262_144}}},
        "tasks": {"tasks": ",".join(map(str, range(0, 20_000, 2)))},
        "dependencies": {"depends_on": ",".join(f"a{number}" for number in range(1_000))},
        "tags": {"tags": {f"k{number}": "v" * 1000 for number in range(4_000)}},
    }
    for name, fields in kinds.items():
        yield f"submit, {name}", _rest(asking, "POST", "/allocations", _SUBMISSION | fields)


def _several(asking: Asking) -> Iterator[tuple[str, Callable[[], object]]]:
    batch, cancel = "/allocations/batch", "/allocations/cancel"
    yield (
        "batch of node lists",
        _rest(asking, "POST", batch, {"submissions": [_SUBMISSION | {"resources": _NODES}] * BATCH}),
    )
    yield "batch of nothing", _rest(asking, "POST", batch, b'{"submissions":[' + b"{}," * 1_300_000 + b"{}]}")
    yield "batch of texts", _rest(asking, "POST", batch, b'{"submissions":[' + b'"",' * 1_300_000 + b'""]}')
    stages = [{"id": f"s{place}", "allocation": _SUBMISSION} for place in range(1_000)]
    yield "DAG", _rest(asking, "POST", "/dags", {"name": "large", "allocations": stages})
    yield "cancel many", _rest(asking, "POST", cancel, {"ids": [f"a{number}" for number in range(5_000, 15_000)]})
    yield "cancel pieces of a group", _rest(asking, "POST", cancel, {"ids": [f"a1_[{_PIECES}]"] * 500})
    yield "steps of pieces", _rest(asking, "POST", cancel, {"ids": ["a1_[" + "0-99999:2," * 900 + "1]"]})
    yield "lists in lists", _rest(asking, "POST", cancel, b'{"ids":' + b"[" * 4_000_000)
    yield "quotes and backslashes", _rest(asking, "POST", cancel, b'{"ids":["' + rb"\"\\," * 830_000 + b'"]}')


def _listings(asking: Asking) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "list of 10,000", _rest(asking, "GET", "/allocations?limit=10000", None)
    yield "count", _rest(asking, "GET", "/allocations/count", None)
    yield "filter", _rest(asking, "GET", "/nodes?filter=State=a" + "%20" * 15_000 + "b", None)
    yield "filters by name", _rest(asking, "GET", "/nodes?" + "&".join(["filter=Name=n[0-299]"] * 64), None)
    yield "node set", _rest(asking, "GET", "/nodes?nodes=n[0-99998]", None)


def _slurm(asking: Asking) -> Iterator[tuple[str, Callable[[], object]]]:
    for name, argv in {
        "features": ["-C", "a|" * 60_000, "--wrap=true"],
        "node lists": [*["-w", "n[0-9998]"] * 200, "--wrap=true"],
        "export": ["--export=" + "A=1," * 30_000, "--wrap=true"],
        "words": ["-Jx"] * 9_990 + ["--wrap=true"],
    }.items():
        yield f"sbatch, {name}", lambda argv=argv: asking.slurm("sbatch", *argv)  # type: ignore[misc]
    directives = "#!/bin/sh\n" + "#SBATCH -J x\n" * 300_000
    yield "sbatch, directives", lambda: asking.slurm("sbatch", script=directives)
    yield "hostnames", lambda: asking.slurm("scontrol", "show", "hostnames", "n[0-99998]")
    yield "hostlist", lambda: asking.slurm("scontrol", "show", "hostlist", _NAMES)
    yield "scancel, 30,000 words", lambda: asking.slurm("scancel", *["1"] * 30_000)
    yield "scancel, 9,900 jobs", lambda: asking.slurm("scancel", *[str(number) for number in range(100, 10_000)])
    yield "squeue of 20,000 numbers", lambda: asking.slurm("squeue", "-j", "1," * 20_000 + "1")
    yield "squeue of everything", lambda: asking.slurm("squeue")
    yield "squeue of everything, long", lambda: asking.slurm("squeue", "-l", "-r")
    yield "squeue with a wide format", lambda: asking.slurm("squeue", "-o", "%i %j %u %T %R " * 100)
    yield "sacct of everything", lambda: asking.slurm("sacct", "-a", "-S", "now-1day")
    yield "sacct of everything, long", lambda: asking.slurm("sacct", "-a", "-l", "-p", "-S", "now-1day")
    yield "squeue of everything as JSON", lambda: asking.slurm("squeue", "--json")
    yield "sacct of everything as JSON", lambda: asking.slurm("sacct", "-a", "--json", "-S", "now-1day")
    yield "sprio", lambda: asking.slurm("sprio")
    yield "scontrol show job", lambda: asking.slurm("scontrol", "show", "job")


def _grpc(asking: Asking) -> Iterator[tuple[str, Callable[[], object]]]:
    nodes = pb.Resources(constraints=pb.Constraints(nodes="n[0-9998]"))
    for name, method, request in (
        ("script", "Submit", pb.SubmitRequest(script="#!/bin/sh\n" + "true\n" * 800_000, hold=True)),
        ("arguments", "Submit", pb.SubmitRequest(entrypoint=["x" * 400] * 9_900, hold=True)),
        ("empty arguments", "Submit", pb.SubmitRequest(entrypoint=[""] * 2_000_000)),
        ("node list", "Submit", pb.SubmitRequest(entrypoint=["true"], hold=True, resources=nodes)),
        ("batch", "SubmitBatch", pb.SubmitBatchRequest(submissions=[_message(nodes)] * BATCH)),
        ("batch of nothing", "SubmitBatch", pb.SubmitBatchRequest(submissions=[pb.Submission()] * 2_000_000)),
        ("cancel", "CancelMany", pb.CancelManyRequest(ids=[f"a{number}" for number in range(5_000, 15_000)])),
        ("cancel of nothing", "CancelMany", pb.CancelManyRequest(ids=[""] * 2_000_000)),
        ("list of 10,000", "List", pb.ListAllocationsRequest(limit=10_000)),
    ):
        sent = request.SerializeToString()
        yield f"gRPC, {name}", lambda method=method, sent=sent: asking.grpc(method, sent)  # type: ignore[misc]


def _message(nodes: pb.Resources) -> pb.Submission:
    return pb.Submission(entrypoint=["true"], hold=True, resources=nodes)


def _rest(asking: Asking, method: str, path: str, body: object) -> Callable[[], object]:
    return lambda: asking.rest(method, path, body)
