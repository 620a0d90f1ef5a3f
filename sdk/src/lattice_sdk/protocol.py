"""The versions of the API's protocol that this library speaks; the server uses the highest that both know, or refuses."""

OLDEST = 1
NEWEST = 2
HEADER = ("X-Lattice-Protocol", f"{OLDEST}-{NEWEST}")


def advice(servers: str) -> str:
    """What to do about a server that speaks these versions (`3-4`) and none of ours; empty when it said no range."""
    oldest, dash, newest = servers.partition(";")[0].partition("-")
    if not dash or not (oldest.strip().isdecimal() and newest.strip().isdecimal()):
        return ""
    if int(oldest) > NEWEST:
        return f"upgrade lattice-hpc-sdk: it speaks protocol versions {OLDEST} to {NEWEST}, the server {oldest} to {newest}"
    if int(newest) < OLDEST:
        return (
            f"use the lattice-hpc-sdk of the server's release, or upgrade the server: it speaks protocol versions {oldest} to "
            f"{newest}, this lattice-hpc-sdk {OLDEST} to {NEWEST}"
        )
    return ""
