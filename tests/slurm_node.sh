#!/usr/bin/env bash
# Slurm on this machine alone, as root, without systemd, cgroups or accounting: slurm_node.sh start|stop, in the folder $DIR.
set -euo pipefail
: "${DIR:?the folder of the node}"
host=$(hostname -s)
export SLURM_CONF=$DIR/slurm.conf

# Whether the process of a file runs.
runs() {
    local id
    id=$(cat "$1" 2>/dev/null) && [ -n "$id" ] && [ -d "/proc/$id" ] && ! grep -q '^State:.Z' "/proc/$id/status" 2>/dev/null
}

configure() {
    mkdir -p "$DIR"/{state,spool,log,run}
    {
        echo "ClusterName=alone"
        echo "SlurmctldHost=$host(127.0.0.1)"
        echo "SlurmUser=root"
        echo "SlurmdUser=root"
        echo "AuthType=auth/munge"
        echo "CryptoType=crypto/munge"
        echo "AuthInfo=socket=$DIR/run/munge.socket"
        echo "SlurmctldPort=${PORT:-26817}"
        echo "SlurmdPort=$((${PORT:-26817} + 1))"
        echo "SlurmctldPidFile=$DIR/run/slurmctld.pid"
        echo "SlurmdPidFile=$DIR/run/slurmd.pid"
        echo "SlurmctldLogFile=$DIR/log/slurmctld.log"
        echo "SlurmdLogFile=$DIR/log/slurmd.log"
        echo "StateSaveLocation=$DIR/state"
        echo "SlurmdSpoolDir=$DIR/spool"
        echo "ProctrackType=proctrack/linuxproc"
        echo "TaskPlugin=task/none"
        echo "JobAcctGatherType=jobacct_gather/none"
        echo "AccountingStorageType=accounting_storage/none"
        echo "SelectType=select/cons_tres"
        echo "SelectTypeParameters=CR_CPU"
        echo "SchedulerType=sched/backfill"
        echo "SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1"
        echo "ReturnToService=2"
        echo "KillWait=5"
        echo "NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN"
        echo "PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
    } >"$DIR/slurm.conf"
}

case ${1:?start or stop} in
start)
    configure
    if [ ! -s "$DIR/munge.key" ]; then
        dd if=/dev/urandom of="$DIR/munge.key" bs=128 count=1 status=none
        chmod 400 "$DIR/munge.key"
    fi
    runs "$DIR/run/munged.pid" || munged --force --key-file="$DIR/munge.key" --socket="$DIR/run/munge.socket" \
        --pid-file="$DIR/run/munged.pid" --log-file="$DIR/log/munged.log" --seed-file="$DIR/run/munged.seed"
    runs "$DIR/run/slurmctld.pid" || slurmctld -f "$SLURM_CONF"
    runs "$DIR/run/slurmd.pid" || slurmd -f "$SLURM_CONF" -N "$host"
    for _ in $(seq 50); do
        if sinfo -h -o '%T' 2>/dev/null | grep -qE 'idle|mixed|alloc'; then
            exit 0
        fi
        sleep 0.2
    done
    echo "the node did not come up: $DIR/log" >&2
    exit 1
    ;;
stop)
    for daemon in slurmd slurmctld munged; do
        if runs "$DIR/run/$daemon.pid"; then
            kill "$(cat "$DIR/run/$daemon.pid")"
        fi
    done
    ;;
esac
