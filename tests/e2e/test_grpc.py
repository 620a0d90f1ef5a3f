"""gRPC as a client meets it: real servers, certificates, followers that hand calls on, a leader that changes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from lattice.testing import LocalCluster
from lattice.wire.pb import admin_pb2 as admin
from lattice.wire.pb import admin_pb2_grpc as admin_stubs
from lattice.wire.pb import allocations_pb2 as pb
from lattice.wire.pb import allocations_pb2_grpc as stubs
from tests.conftest import require_program

pytestmark = pytest.mark.e2e

SERVING = health_pb2.HealthCheckResponse.ServingStatus.SERVING
SERVICES = {f"lattice.v1.{name}" for name in ("AllocationService", "NodeService", "AdminService", "AgentService")}


def bearer(cluster: LocalCluster) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {cluster.token}")]


def addresses(cluster: LocalCluster) -> list[str]:
    return cluster.file.grpc.split(",")


@contextmanager
def channel_to(address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        yield channel


@contextmanager
def allocations(cluster: LocalCluster, address: str = "") -> Iterator[stubs.AllocationServiceStub]:
    with channel_to(address or addresses(cluster)[0]) as channel:
        yield stubs.AllocationServiceStub(channel)


def test_work_runs_and_its_output_comes_back(cluster: LocalCluster) -> None:
    token = bearer(cluster)
    with allocations(cluster) as service:
        request = pb.SubmitRequest(entrypoint_text="echo one; echo two >&2", name="by grpc")
        submitted = service.Submit(request, metadata=token).allocation
        assert submitted.state == "Pending"
        events = service.StreamLogs(pb.StreamLogsRequest(id=submitted.id), metadata=token, timeout=60)
        found = list(events)
        assert "".join(event.piece.data for event in found if event.HasField("piece")) == "one\n"
        assert found[-1].end.state == "Completed"
        ended = service.Wait(pb.WaitRequest(id=submitted.id, timeout=30), metadata=token)
        assert (ended.state, ended.exit_code) == ("Completed", 0)
        pieces = service.Logs(pb.LogsRequest(id=submitted.id, stream="stderr"), metadata=token)
        assert b"".join(piece.data for piece in pieces) == b"two\n"
        shown = service.Get(pb.GetAllocationRequest(id=submitted.id, details=True), metadata=token)
        assert shown.details.entrypoint == ["/bin/sh", "-c", "echo one; echo two >&2"]


def test_a_watch_sees_an_allocation_from_its_beginning_to_its_end(cluster: LocalCluster) -> None:
    token = bearer(cluster)
    with allocations(cluster) as service:
        first = service.Submit(pb.SubmitRequest(entrypoint=["true"]), metadata=token).allocation
        seen = []
        for event in service.Watch(pb.WatchRequest(ids=[first.id], since=0), metadata=token, timeout=60):
            if event.HasField("change"):
                seen.append(event.change.state)
                if event.change.state == "Completed":
                    break
        assert seen[-1] == "Completed"


def test_a_watch_is_taken_up_where_it_was_cut_off(cluster: LocalCluster) -> None:
    token = bearer(cluster)
    with allocations(cluster) as service:
        first = service.Submit(pb.SubmitRequest(entrypoint=["true"]), metadata=token).allocation
        cluster.wait_end(first.id)

        def kinds(wanted: pb.WatchRequest, most: int) -> tuple[list[str], str]:
            seen, place = [], ""
            for event in service.Watch(wanted, metadata=token, timeout=60):
                place = event.event_id or place
                if event.HasField("change"):
                    seen.append(event.change.kind)
                if len(seen) == most or seen[-1:] == ["ended"]:
                    break
            return seen, place

        whole, _ = kinds(pb.WatchRequest(ids=[first.id], since=0), 100)
        for cut in range(1, len(whole)):
            before, place = kinds(pb.WatchRequest(ids=[first.id], since=0), cut)
            after, _ = kinds(pb.WatchRequest(ids=[first.id], last_event_id=place), 100)
            # Changes of one log entry are shown again rather than lost.
            assert whole[:cut] == before
            assert len(after) >= len(whole) - cut
            assert whole[-len(after) :] == after


def test_health_and_reflection_say_what_is_there(cluster: LocalCluster) -> None:
    with channel_to(addresses(cluster)[0]) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", *sorted(SERVICES)):
            assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == SERVING, name
        with pytest.raises(grpc.RpcError) as unknown:
            health.Check(health_pb2.HealthCheckRequest(service="lattice.v1.Nothing"))
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        database = ProtoReflectionDescriptorDatabase(channel)
        assert set(database.get_services()) >= SERVICES
        described = database.FindFileContainingSymbol("lattice.v1.AllocationService")
        assert "Submit" in {method.name for method in described.service[0].method}


def test_a_method_that_does_not_exist_is_unimplemented(cluster: LocalCluster) -> None:
    with channel_to(addresses(cluster)[0]) as channel:
        method: Any = channel.unary_unary("/lattice.v1.AllocationService/Dance")  # type: ignore[call-arg] # bytes both ways
        with pytest.raises(grpc.RpcError) as refused:
            method(b"", metadata=bearer(cluster))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    require_program("etcd")
    with LocalCluster(nodes=1, servers=3) as cluster:
        yield cluster


def test_every_server_answers_every_call(servers: LocalCluster) -> None:
    token = bearer(servers)
    for address in addresses(servers):
        with allocations(servers, address) as service:
            made = service.Submit(pb.SubmitRequest(entrypoint=["true"], request_id="same"), metadata=token).allocation
            assert service.Get(pb.GetAllocationRequest(id=made.id), metadata=token).id == made.id
            assert made.id == "a1"
            ended = service.Wait(pb.WaitRequest(id=made.id, timeout=60), metadata=token)
            assert ended.state == "Completed"
            with pytest.raises(grpc.RpcError) as refused:
                service.Get(pb.GetAllocationRequest(id="a999"), metadata=token)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
            trailers: Any = refused.value.trailing_metadata()
            assert "lattice-error-bin" in dict(trailers)
            with pytest.raises(grpc.RpcError) as stranger:
                service.Get(pb.GetAllocationRequest(id=made.id))
            assert stranger.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_follower_answers_from_what_it_has_when_that_may_be_old(servers: LocalCluster) -> None:
    token = [*bearer(servers), ("x-lattice-consistency", "stale")]
    names = set()
    for address in addresses(servers):
        with channel_to(address) as channel:
            status = admin_stubs.AdminServiceStub(channel).SchedulerStatus(
                admin.SchedulerStatusRequest(), metadata=token
            )
            names.add(status.server)
    assert len(names) == 3


def test_calls_go_on_while_the_leader_changes(servers: LocalCluster) -> None:
    token = bearer(servers)
    leader = servers.leader()
    acknowledged: list[str] = []
    refusals: list[str] = []
    over = threading.Event()

    def submit(address: str, place: int) -> None:
        with allocations(servers, address) as service:
            count = 1
            while not over.is_set():
                request = pb.SubmitRequest(entrypoint=["true"], hold=True, request_id=f"turn-{place}-{count}")
                try:
                    acknowledged.append(service.Submit(request, metadata=token, timeout=30).allocation.id)
                    count += 1
                except grpc.RpcError as error:
                    # What a client does then: the same again.
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        refusals.append(f"{error.code()} {error.details()}")

    threads = [threading.Thread(target=submit, args=(each, place)) for place, each in enumerate(addresses(servers))]
    for thread in threads:
        thread.start()
    try:
        with channel_to(addresses(servers)[0]) as channel:
            service = admin_stubs.AdminServiceStub(channel)
            service.TransferLeader(admin.TransferLeaderRequest(), metadata=token, timeout=60)
        before = len(acknowledged)
        while len(acknowledged) < before + 10 and not refusals:
            threads[0].join(0.01)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert refusals == []
    assert len(set(acknowledged)) == len(acknowledged)
    assert servers.leader() != leader
    with allocations(servers) as reading:
        there = reading.List(pb.ListAllocationsRequest(state=["pending"], limit=10000), metadata=token)
    assert {each.id for each in there.items} == set(acknowledged)
    servers.post("/allocations/cancel", {"all_mine": True})
