"""The packages under a real systemd: a virtual machine boots, its units serve, and nothing that systemd does to the agent ends work."""

from pathlib import Path

import pytest

from tests.conftest import require_root
from tests.e2e.booted_debian import boot
from tests.e2e.debian_root import ROOT, inside, install, make_root

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.root, pytest.mark.timeout(3600)]

# Before it boots, as the first server of a site: docs/admin/systemd.md.
SET_UP = """\
useradd --create-home ada
echo '127.0.0.1 localhost machine' > /etc/hosts
echo machine > /etc/hostname
lattice-server init --host machine --admin ada > /root/init.log
# An agent takes most of a minute to start there: neither its node nor what it is to start is given up meanwhile.
echo 'node_agent: {heartbeat_timeout_s: 10m, grace_period_s: 10m, start_timeout_s: 10m}' >> /etc/lattice/server.yaml
lattice-server --config /etc/lattice/server.yaml --agent-token n1 --valid-for 30d > /etc/lattice/agent.token
cat > /etc/lattice/agent.yaml <<END
node_id: n1
state_dir: /var/lib/lattice/agent
servers: ["https://machine:50051"]
token_file: /etc/lattice/agent.token
bootstrap_ca: /etc/lattice/tls/ca.crt
cpus: 2
memory_mb: 1024
END
systemctl enable -q lattice-server lattice-agent
"""
TRIAL = """\
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
export LATTICE_CONFIG=/etc/lattice/config.yaml LATTICE_TOKEN_FILE=/etc/lattice/admin.token LATTICE_CA_FILE=/etc/lattice/tls/ca.crt LATTICE_WARM=off
try() { local what=$1; shift; if "$@" >&2; then echo "ok $what"; else echo "FAILED $what"; fi; }
wait_for() { local n; for n in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 1; done; return 1; }
property() { systemctl show --value -p "$2" "$1"; }
ready() { [ "$(lattice nodes n1 -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])')" = Ready ]; }
active() { [ "$(property "$1" ActiveState)" = active ]; }
work() { pgrep -x -f 'sleep 4329'; }
same_work() { [ "$(work)" = "$pid" ]; }
replaced() { [ "$(property lattice-agent MainPID)" != "$before" ] && active lattice-agent; }
# Ready is what the node was all the time: only an agent that serves runs something new.
runs_more() { timeout 300 lattice run --cpus=1 --memory=100M -- true; }
agent_replaced() { wait_for replaced && runs_more && same_work; }

try "both units are active" wait_for active lattice-agent
try "the server serves" active lattice-server
try "the node is admitted" wait_for lattice admin node admit n1
try "the node is Ready" wait_for ready
try "the server runs as its own user" test "$(property lattice-server User)" = lattice -a "$(stat -c %U /proc/$(property lattice-server MainPID))" = lattice
try "the agent keeps its protection" test "$(cat /proc/$(property lattice-agent MainPID)/oom_score_adj)" = -900
exposure=$(systemd-analyze security --no-pager lattice-server.service | sed -n 's/.*exposure level for lattice-server.service: \\([0-9.]*\\).*/\\1/p')
try "the server is confined ($exposure)" awk "BEGIN { exit !(\\"$exposure\\" != \\"\\" && $exposure + 0 < 5) }"

python3 /validate https://machine:8443 n1 > /validated 2>&1
cat /validated >&2
try "validation" grep -qx '15 of 15 passed' /validated

lattice admin vcluster update default --node-sharing=shared >&2  # room for more beside it
lattice submit --walltime=1h --cpus=1 --memory=200M --stdout=/dev/null -- sleep 4329 >&2
try "work runs" wait_for work
pid=$(work)
group=$(sed -n 's/^0:://p' /proc/$pid/cgroup)
echo "group $group" >&2
try "the work is not in the unit's group" sh -c "case $group in /lattice/*) exit 0;; *) exit 1;; esac"
limit() { [ "$(cat /sys/fs/cgroup$group/memory.max)" = 209715200 ]; }
try "its memory is limited" limit
try "it has not the agent's protection" test "$(cat /proc/$pid/oom_score_adj)" = 0
systemctl daemon-reload
try "its limits survive a reload of systemd" limit

before=$(property lattice-agent MainPID); systemctl restart lattice-agent
try "work outlives a restart of the agent" agent_replaced
before=$(property lattice-agent MainPID); systemctl kill -s KILL --kill-who=main lattice-agent
try "work outlives kill -9 of the agent, which systemd starts again" agent_replaced
before=$(property lattice-agent MainPID); kill -STOP "$before"
try "the watchdog replaces an agent that hangs" agent_replaced
before=$(property lattice-agent MainPID); dpkg -i /packages/lattice-agent_*.deb >&2
try "work outlives the upgrade of the package" agent_replaced
systemctl restart lattice-server
try "work outlives a restart of the server" sh -c "kill -0 $pid"
try "the server serves again" wait_for ready
try "and its agent has come back" runs_more
systemctl kill -s KILL --kill-who=main lattice-server
try "systemd starts a killed server again" wait_for ready
try "which counts as one restart" test "$(property lattice-server NRestarts)" = 1

cp /etc/lattice/server.yaml /root/server.yaml; echo 'nmae: s9' >> /etc/lattice/server.yaml
systemctl restart lattice-server
inactive() { [ "$(property lattice-server ActiveState)" = failed ]; }
try "a wrong configuration stops the server" wait_for inactive
try "with exit code 2, once" test "$(property lattice-server ExecMainStatus)/$(property lattice-server NRestarts)" = 2/0
journalctl --sync
journalctl -u lattice-server --no-pager -n 20 > /journal
try "and the journal names file, line and key" grep -q 'server.yaml:.*unknown key "nmae".*did you mean "name"' /journal
cp /root/server.yaml /etc/lattice/server.yaml; systemctl reset-failed lattice-server; systemctl start lattice-server
try "the server serves with the right one" wait_for ready

dpkg -r lattice-agent >&2
try "work outlives the removal of the package" same_work
gone() { ! pgrep -f '/[l]attice-agent --config' && ! active lattice-agent; }
try "and the agent is gone" gone
journalctl --no-pager -p warning -n 40 >&2
echo "the end"
"""


def test_units_under_systemd_serve_and_spare_the_work(tmp_path: Path) -> None:
    require_root()
    root = tmp_path / "root"
    make_root(root)
    install(root)
    inside(root, SET_UP)
    (root / "validate").write_bytes((ROOT / "deploy" / "validate").read_bytes())
    said = boot(root, TRIAL, tmp_path)
    lines = said.replace("\r", "").splitlines()
    assert [line for line in lines if line.startswith("FAILED")] == [], said
    assert len([line for line in lines if line.startswith("ok ")]) == TRIAL.count('\ntry "'), said
