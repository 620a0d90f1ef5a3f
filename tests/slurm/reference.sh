#!/bin/bash
# A real Slurm in a root of its own: the files of this machine with an overlay in memory, Debian's packages, four nodes.
# Runs as the first process of its own mount and pid namespaces, so that all of it goes with it.
# usage: unshare -m -p --fork reference.sh FOLDER PORT PORT PORT PORT PORT
set -eu
folder=$1
shift
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
root=$folder/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
chmod 1777 "$root/tmp"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive
install() {
    chroot "$root" apt-get -qq -y --no-install-recommends install \
        munge slurm-client slurmctld slurmd slurm-wlm-basic-plugins >&2
}
install || { chroot "$root" apt-get -qq update >&2 && install; }
host=$(hostname -s)
mkdir -p "$root/etc/slurm" "$root/var/spool/slurmctld" "$root/run/munge" "$root/var/log/slurm"
{
    printf '%s\n' ClusterName=ref "SlurmctldHost=$host(127.0.0.1)" SlurmUser=root SlurmdUser=root AuthType=auth/munge \
        StateSaveLocation=/var/spool/slurmctld SlurmdSpoolDir=/var/spool/slurmd.%n SlurmctldPidFile=/run/slurmctld.pid \
        SlurmdPidFile=/run/slurmd.%n.pid SlurmctldLogFile=/var/log/slurm/ctld.log SlurmdLogFile=/var/log/slurm/%n.log \
        ProctrackType=proctrack/linuxproc TaskPlugin=task/none SelectType=select/linear SchedulerType=sched/backfill \
        AccountingStorageType=accounting_storage/none JobCompType=jobcomp/none ReturnToService=2 MinJobAge=300 KillWait=5 \
        SlurmdParameters=config_overrides "SlurmctldPort=$1"
    shift
    number=1
    for port; do
        printf 'NodeName=n%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=2 RealMemory=2000 State=UNKNOWN\n' "$number" "$host" "$port"
        number=$((number + 1))
    done
    printf '%s\n' 'PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP' \
        'PartitionName=debug Nodes=n[1-2] MaxTime=30:00 State=UP'
} >"$root/etc/slurm/slurm.conf"
printf 'CgroupAutomount=no\n' >"$root/etc/slurm/cgroup.conf"
(umask 077 && head -c 1024 /dev/urandom >"$root/etc/munge/munge.key")
chroot "$root" chown -R munge: /etc/munge /run/munge /var/lib/munge /var/log/munge
chroot "$root" setpriv --reuid munge --regid munge --clear-groups munged
chroot "$root" slurmctld
for number in 1 2 3 4; do
    mkdir -p "$root/var/spool/slurmd.n$number"
    chroot "$root" slurmd -N "n$number"
done
for _ in $(seq 100); do
    if [ "$(chroot "$root" sinfo -h -t idle -p main -o %D)" = 4 ]; then
        echo ready
        exec sleep infinity
    fi
    sleep 0.2
done
echo "the nodes did not become idle" >&2
exit 1
