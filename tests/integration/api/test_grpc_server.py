"""The gRPC server as it is set up: certificates, health that follows the server, calls before anything is served."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lattice.api.grpc.operations import OperationServices
from lattice.api.grpc.public import UnusableCertificate, offer, tls_credentials
from lattice.api.grpc.strangers import READ_CONCURRENCY
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
from lattice.wire.pb import admin_pb2 as pb
from lattice.wire.pb import admin_pb2_grpc as stubs
from lattice.wire.pb import allocations_pb2
from tests.integration.api.world import World, in_world

Status = health_pb2.HealthCheckResponse.ServingStatus


def certificates(path: Path) -> CertificateFolder:
    folder = CertificateFolder(path)
    create_authority(folder)
    install(folder, issue(folder, ["127.0.0.1", "localhost"]))
    return folder


def test_with_mutual_tls_only_certificates_of_the_authority_get_in(tmp_path: Path) -> None:
    ours, theirs = certificates(tmp_path / "ours"), certificates(tmp_path / "theirs")

    @in_world
    async def ask(world: World) -> None:
        operations = OperationServices()
        operations.serve(world.services)
        server = grpc.aio.server()
        operations.add_to(server)
        credentials = tls_credentials(ours.member_certificate, ours.member_key, ours.trusted)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        try:
            assert await whoami(world, port, ours, ours) == "alice"
            assert await whoami(world, port, ours, theirs) == "UNAVAILABLE"
            assert await whoami(world, port, ours, None) == "UNAVAILABLE"
            assert await whoami(world, port, theirs, ours) == "UNAVAILABLE"
        finally:
            await server.stop(0)

    ask()


async def whoami(world: World, port: int, authority: CertificateFolder, own: CertificateFolder | None) -> str:
    pair = (None, None) if own is None else (own.client_key.read_bytes(), own.client_certificate.read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.trusted.read_bytes(), *pair)
    token = (("authorization", f"Bearer {world.alice}"),)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        try:
            answer = await stubs.AdminServiceStub(channel).Whoami(pb.WhoamiRequest(), metadata=token, timeout=10)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return str(answer.user)


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableCertificate, match=r"member\.key"):
        tls_credentials(tmp_path / "member.crt", tmp_path / "member.key", None)


def test_a_server_is_healthy_while_it_serves_and_calls_wait_for_that() -> None:
    async def look() -> None:
        world = World()
        await world.start()
        operations = OperationServices()
        server = grpc.aio.server()
        health = offer(server, operations)
        port = server.add_insecure_port("127.0.0.1:0")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(world.stop)
            await server.start()
            stack.push_async_callback(server.stop, 0)
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            service, checks = stubs.AdminServiceStub(channel), health_pb2_grpc.HealthStub(channel)
            token = (("authorization", f"Bearer {world.alice}"),)
            with pytest.raises(grpc.aio.AioRpcError, match="starting") as early:
                await service.Whoami(pb.WhoamiRequest(), metadata=token)
            assert early.value.code() is grpc.StatusCode.UNAVAILABLE
            await health.set(is_serving=False)
            assert (await checks.Check(health_pb2.HealthCheckRequest())).status == Status.NOT_SERVING
            operations.serve(world.services)
            await health.set(is_serving=True)
            named = health_pb2.HealthCheckRequest(service="lattice.v1.AdminService")
            assert (await checks.Check(named)).status == Status.SERVING
            assert (await service.Whoami(pb.WhoamiRequest(), metadata=token)).user == "alice"
            world.ready = False
            with pytest.raises(grpc.aio.AioRpcError, match="starting"):
                await service.Whoami(pb.WhoamiRequest(), metadata=token)

    asyncio.run(look())


@in_world
async def test_a_caller_without_a_token_is_refused_before_the_request_is_read(world: World) -> None:
    operations = OperationServices()
    operations.serve(world.services)
    server = grpc.aio.server()
    operations.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with asyncio.timeout(20), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            # Nothing is sent but the metadata: an answer can only come from somebody who does not wait for more.
            call: grpc.aio.StreamUnaryCall[bytes, bytes] = channel.stream_unary(  # type: ignore[call-arg]
                "/lattice.v1.AllocationService/Submit"
            )()
            assert await call.code() == grpc.StatusCode.UNAUTHENTICATED
            twice = (("authorization", f"Bearer {world.alice}"),) * 2
            stub = stubs.AdminServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Whoami(pb.WhoamiRequest(), metadata=twice)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    finally:
        await server.stop(0)


@asynccontextmanager
async def public_server(world: World) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to all that a server offers to everybody."""
    operations = OperationServices()
    operations.serve(world.services)
    server = grpc.aio.server(options=(("grpc.max_receive_message_length", 16 << 20),))
    health = offer(server, operations)
    await health.set(is_serving=True)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(0)


def half_call(channel: grpc.aio.Channel, path: str) -> "grpc.aio.StreamUnaryCall[bytes, bytes]":
    """A call of which nothing is sent but the metadata."""
    return channel.stream_unary(path)()  # type: ignore[call-arg]


@in_world
async def test_strangers_that_send_nothing_keep_nobody_from_health_checks(world: World) -> None:
    async with public_server(world) as channel:
        held = [half_call(channel, "/grpc.health.v1.Health/Check") for _ in range(READ_CONCURRENCY)]
        checks = health_pb2_grpc.HealthStub(channel)
        unknown = health_pb2.HealthCheckRequest(service="nothing")
        while True:  # until the slots are taken: names are not looked at then
            with suppress(grpc.aio.AioRpcError):
                assert (await checks.Check(unknown)).status == Status.SERVING
                break
        await asyncio.gather(*(call.code() for call in held))  # given up, with an answer
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await checks.Check(unknown)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


@in_world
async def test_strangers_send_small_requests_alone(world: World) -> None:
    large = health_pb2.HealthCheckRequest(service="x" * (15 << 20))
    async with public_server(world) as channel:
        checks = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="longer than 4,096 bytes"):
            await checks.Check(large)
        with pytest.raises(grpc.aio.AioRpcError, match="longer than 4,096 bytes"):
            await anext(aiter(checks.Watch(large)))
        reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")  # type: ignore[call-arg]
        with pytest.raises(grpc.aio.AioRpcError, match="longer than 4,096 bytes"):
            await anext(aiter(reflect(iter([b"x" * 5000]))))


@in_world
async def test_a_message_of_very_many_small_ones_is_not_parsed(world: World) -> None:
    async with public_server(world) as channel:
        number = allocations_pb2.SubmitDagRequest.DESCRIPTOR.fields_by_name["allocations"].number
        submit = channel.unary_unary("/lattice.v1.AllocationService/SubmitDag")  # type: ignore[call-arg]
        with pytest.raises(grpc.aio.AioRpcError, match="too many messages") as refused:
            await submit(
                bytes((number << 3 | 2, 0)) * (2 << 20), metadata=(("authorization", f"Bearer {world.alice}"),)
            )
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@in_world
async def test_refused_calls_leave_nothing_behind(world: World) -> None:
    """Without a garbage collection in between: a server makes one seldom."""
    size, token = 3 << 20, (("authorization", f"Bearer {world.alice}"),)
    async with public_server(world) as channel:
        submit: Any = channel.unary_unary("/lattice.v1.AllocationService/Submit")  # type: ignore[call-arg]
        request = allocations_pb2.SubmitRequest(name="x" * size).SerializeToString()

        async def refused() -> None:
            with pytest.raises(grpc.aio.AioRpcError, match="is too long"):
                await submit(request, metadata=token)

        gc.disable()
        tracemalloc.start()
        try:
            await refused()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(5):
                await refused()
            for _ in range(2000):  # the server lets go of a call after it has answered
                left = tracemalloc.get_traced_memory()[0] - before
                if left < size:
                    break
                await asyncio.sleep(0.01)
        finally:
            tracemalloc.stop()
            gc.enable()
    assert left < size
