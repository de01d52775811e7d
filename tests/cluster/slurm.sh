#!/usr/bin/env bash
# A real Slurm of two nodes on this machine, for tests: slurm.sh start, stop, or up NODE.
# It needs Debian or Ubuntu, root, and the packages slurmctld, slurmd, slurm-client and munge, which `start`
# installs where they are missing. No systemd. Everything that it writes is in $MICROTOME_SLURM.
set -euo pipefail
DO=${1:?start, stop or up}
NODE=${2:-n1}
W=${MICROTOME_SLURM:-/tmp/microtome-slurm}
export SLURM_CONF=$W/slurm.conf

daemons() { pgrep -f -- "(slurmctld|slurmd|munged).*$W/" || true; }

node() { slurmd -N "$1" -f "$SLURM_CONF"; }

case $DO in
  start)
    command -v slurmctld > /dev/null || apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge
    H=$(hostname -s)
    mkdir -p "$W"/{state,log,munge,spool-n1,spool-n2}
    chmod 0755 "$W" "$W/munge"
    [ -f "$W/munge/key" ] || { dd if=/dev/urandom of="$W/munge/key" bs=1024 count=1 2> /dev/null; chmod 0400 "$W/munge/key"; }
    munged --force --key-file="$W/munge/key" --socket="$W/munge/sock" --pid-file="$W/munge/pid" \
      --log-file="$W/munge/log" --seed-file="$W/munge/seed"
    cat > "$SLURM_CONF" << C
ClusterName=tiny
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$W/munge/sock
CredType=cred/munge
StateSaveLocation=$W/state
SlurmdSpoolDir=$W/spool-%n
SlurmctldPidFile=$W/ctld.pid
SlurmdPidFile=$W/slurmd-%n.pid
SlurmctldLogFile=$W/log/ctld
SlurmdLogFile=$W/log/slurmd-%n
SlurmctldPort=16817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
MinJobAge=30
SlurmdTimeout=8
NodeName=n1 NodeHostname=$H NodeAddr=127.0.0.1 Port=17001 CPUs=2 RealMemory=16000 State=UNKNOWN
NodeName=n2 NodeHostname=$H NodeAddr=127.0.0.1 Port=17002 CPUs=2 RealMemory=16000 State=UNKNOWN
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE MaxTime=INFINITE State=UP
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
C
    slurmctld -f "$SLURM_CONF"
    sleep 1
    node n1
    node n2
    for _ in $(seq 30); do [ "$(sinfo -h -N -p low -o %T | grep -c idle)" = 2 ] && break; sleep 1; done
    sinfo
    ;;
  stop)
    scancel -u "$(whoami)" 2> /dev/null || true
    sleep 1
    for one in $(daemons); do kill "$one" 2> /dev/null || true; done
    ;;
  up) node "$NODE" ;;
esac
