"""When a server says that it can answer nothing."""

import asyncio

from lattice.ports.quorum.log import LogUnavailable
from lattice.quorum.leadership.outage import OutageWatch


def test_a_server_without_a_majority_or_a_leader_is_not_healthy_until_both_are_back() -> None:
    leader, reaches, told = "s1", True, list[bool]()

    async def head() -> int:
        if not reaches:
            raise LogUnavailable("no majority")
        return 7

    async def changed(is_serving: bool) -> None:
        told.append(is_serving)

    async def play() -> None:
        nonlocal leader, reaches
        watch = OutageWatch(head, lambda: leader, changed)
        await watch.look()
        assert watch.outage == ""
        reaches = False
        await watch.look()
        assert watch.outage == ""  # a change of leader looks the same for a moment
        await watch.look()
        assert watch.outage == "no majority"
        reaches, leader = True, ""
        await watch.look()
        assert watch.outage == "no leader"
        leader = "s2"
        await watch.look()
        assert watch.outage == ""
        assert told == [False, True]

    asyncio.run(play())
