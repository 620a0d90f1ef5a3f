"""How many submissions a second one server on one core takes over gRPC with mutual TLS, each durable before its answer."""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from bench.server import free_port, server_on
from lattice.api.auth.tokens import sign_token
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
from lattice.wire.pb import allocations_pb2 as pb
from lattice.wire.pb import allocations_pb2_grpc as stubs

BATCH = 64
SECONDS = 8.0
BATCH = 64


def grpc_rate() -> dict[str, float]:
    """Acknowledged submissions per second, one call each and 64 in one call; and whether all of them are there afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority = CertificateFolder(folder / "certificates")
        create_authority(authority)
        install(authority, issue(authority, ["127.0.0.1", "localhost"]))
        port = free_port()
        current = folder / "certificates" / "current"
        tls = (
            f"  grpc_tls:\n    listen: 127.0.0.1:{port}\n    certificate: {current}/member.crt\n"
            f"    key: {current}/member.key\n    client_authority: {folder}/certificates/ca.crt\n"
        )
        with server_on(folder, tls) as (process, _, _):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(process.pid, cores[:1])
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores[:1])
            os.sched_setaffinity(0, cores[1:] or cores)
            try:
                return asyncio.run(_measured(folder, port))
            finally:
                os.sched_setaffinity(0, cores)


async def _measured(folder: Path, port: int) -> dict[str, float]:
    current = folder / "certificates" / "current"
    credentials = grpc.ssl_channel_credentials(
        (folder / "certificates" / "ca.crt").read_bytes(),
        (current / "client.key").read_bytes(),
        (current / "client.crt").read_bytes(),
    )
    token = sign_token(
        (folder / "secret").read_bytes(),
        user="bench",
        tenants=["default"],
        issued_at_s=int(time.time()),
        lifetime_s=3600,
    )
    metadata = (("authorization", f"Bearer {token}"),)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        service = stubs.AllocationServiceStub(channel)
        request = pb.SubmitRequest(
            entrypoint=["true"], name="bench", resources=pb.Resources(nodes=1), tags={"experiment": "1"}
        )
        batch = pb.SubmitBatchRequest(
            submissions=[pb.Submission(entrypoint=["true"], name=f"bench {place}") for place in range(BATCH)]
        )

        async def submit() -> int:
            await service.Submit(request, metadata=metadata)
            return 1

        async def submit_batch() -> int:
            answer = await service.SubmitBatch(batch, metadata=metadata)
            return sum(item.ok for item in answer.items)

        rate, sent = await _rate(submit, SECONDS, BATCH)
        batch_rate, more = await _rate(submit_batch, SECONDS / 2, 2)
        there = await service.Count(pb.CountAllocationsRequest(), metadata=metadata)
        if there.total < sent + more:
            raise AssertionError(f"{sent + more} acknowledged, {there.total} there")
    return {"grpc_rate": rate, "grpc_batch_rate": batch_rate}


async def _rate(submit: Callable[[], Awaitable[int]], seconds: float, at_once: int) -> tuple[float, int]:
    begun = time.perf_counter()
    sent = 0

    async def one() -> None:
        nonlocal sent
        while time.perf_counter() - begun < seconds:
            # In two steps: `sent` may not be read before the wait.
            done = await submit()
            sent += done

    await asyncio.gather(*(one() for _ in range(at_once)))
    return sent / (time.perf_counter() - begun), sent


if __name__ == "__main__":
    print(grpc_rate())
