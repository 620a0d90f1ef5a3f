"""Figures of the log in etcd: run by `pytest -m bench -s`. The walls are far behind what a quiet machine does."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]
COMMAND_BYTES = 600


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(("commands", "appends"), [(1, 1000), (64, 500), (512, 100)])
def test_appends_one_after_the_other(tmp_path: Path, members: int, commands: int, appends: int) -> None:
    async def scenario(etcd: Etcd) -> None:
        log = etcd.log(await etcd.leader())
        await log.open()
        payload = os.urandom(COMMAND_BYTES * commands)
        latencies = []
        begin = time.perf_counter()
        for index in range(appends):
            before = time.perf_counter()
            await log.append(index, payload)
            latencies.append(time.perf_counter() - before)
        seconds = time.perf_counter() - begin
        await log.close()
        latencies.sort()
        p50, p99 = latencies[appends // 2] * 1e3, latencies[appends * 99 // 100] * 1e3
        rate = appends * commands / seconds
        figures = f"{rate:.0f} commands/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms"
        print(f"\n{members} members, {commands} commands an entry: {figures}")  # noqa: T201
        assert p50 < 100

    with running_etcd(tmp_path, members, quota_bytes=2 << 30) as etcd:
        in_time(scenario(etcd), 120)


def test_a_tail_on_another_member_follows(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd) -> None:
        writer, reader = etcd.log("s1"), etcd.log("s3")
        await writer.open()
        await reader.open()
        lags: list[float] = []

        async def follow() -> None:
            async for entry in reader.tail(1):
                lags.append(time.time() - float(entry.payload))
                if len(lags) == 1000:
                    return

        follower = asyncio.create_task(follow())
        for index in range(1000):
            await writer.append(index, b"%f" % time.time())
        await follower
        await writer.close()
        await reader.close()
        lags.sort()
        print(f"\nfrom append to the other server: p50 {lags[500] * 1e3:.2f} ms, p99 {lags[990] * 1e3:.2f} ms")  # noqa: T201
        assert lags[500] < 0.1

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd), 120)
