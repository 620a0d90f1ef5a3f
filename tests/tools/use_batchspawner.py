"""A notebook server through batchspawner; prints one line of JSON per outcome.

JupyterHub gives the commands a stripped environment: nothing of Lattice's is in it. What the hub does when the server tells
its port is done here.
"""

import asyncio
import getpass
import json
import os
import sys

from batchspawner import SlurmSpawner
from jupyterhub import orm
from jupyterhub.objects import Hub, Server
from jupyterhub.user import User

SERVER = "import http.server as h;s=h.HTTPServer(('127.0.0.1',0),h.BaseHTTPRequestHandler);print(s.server_port,flush=True);s.serve_forever()"


def say(what: str, **values: object) -> None:
    sys.stdout.write(json.dumps({"what": what, **values}) + "\n")


def spawner_in(folder: str) -> SlurmSpawner:
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add(orm.User(name=getpass.getuser()))
    session.commit()
    user = User(session.query(orm.User).first(), {})
    spawner = user._new_spawner(
        "",
        spawner_class=SlurmSpawner,
        cmd=["-c", f'"{SERVER}"'],
        batchspawner_singleuser_cmd=sys.executable,
        hub=Hub(),
        user=user,
        exec_prefix="",
        environment={"PATH": os.environ["PATH"]},
        startup_poll_interval=0.2,
        req_srun="",
        req_runtime="5",
        req_memory="100",
        req_options=f"--chdir={folder} --output={folder}/server.out",
    )
    spawner.get_args = lambda: []
    spawner.server = Server()
    return spawner


async def told_port(folder: str, spawner: SlurmSpawner) -> None:
    path = os.path.join(folder, "server.out")
    while not (os.path.exists(path) and os.path.getsize(path)):  # noqa: ASYNC110 - written by another process
        await asyncio.sleep(0.1)
    with open(path) as file:
        spawner.port = int(file.readline())


async def main(folder: str) -> None:
    spawner = spawner_in(folder)
    telling = asyncio.create_task(told_port(folder, spawner))
    address = await asyncio.wait_for(spawner.start(), 60)
    await telling
    say("started", id=spawner.job_id, host=address[0], has_port=address[1] > 0)
    say("running", poll=await spawner.poll(), status=spawner.job_status)
    await spawner.stop(now=False)
    say("stopped", poll=await spawner.poll())


asyncio.run(main(sys.argv[1]))
