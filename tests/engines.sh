#!/usr/bin/env bash
# Sweeps on engines that are installed: tests/engines.sh SYSTOLE WORKDIR
# Each runs 41 points of which one fails; a worker is killed on the way, and what is missing is resumed. The table must be the
# one of a plain run. Slurm is started on this machine alone where its daemons are installed and the user is root.
set -euo pipefail
systole=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
root=$(realpath "$(dirname "$0")/..")
here=$(realpath "$(dirname "$0")")
cat >"$work/small.toml" <<SPEC
name = "small"
programs = ["$root/examples/mlp.hlo"]
chips = ["tiny"]
conditions = ["core.lanes == 8 || (mxu.count == 1 && dma.engines == 1 && hbm.bandwidth < 9e9)"]
[parameters]
"mxu.count" = [1, 2]
"dma.engines" = [1, 2, 4, 8]
"hbm.bandwidth" = { from = "8 GB/s", to = "128 GB/s", steps = 5, scale = "log" }
"core.lanes" = [8, 12]
SPEC

plan() { rm -rf "$1" && "$systole" sweep plan "$work/small.toml" -o "$1" --no-estimate >/dev/null; }
# Exit code 1: one point failed.
one_failed() { "$@" || [ $? = 1 ]; }
same() {
    one_failed "$systole" sweep collect "$1" >/dev/null
    cmp "$work/plain/table.csv" "$1/table.csv"
    "$systole" sweep status "$1" | grep -q '41 points: 40 done, 1 failed, 0 missing'
    echo "== $2: the table of the plain run"
}
# A stand-in for the command whose first task is killed.
killer() {
    cat >"$1/worker.sh" <<WORKER
#!/bin/sh
if [ "\$2" = task ] && mkdir '$1/killed' 2>/dev/null; then kill -9 \$\$; fi
exec '$systole' "\$@"
WORKER
    chmod +x "$1/worker.sh"
}

plan "$work/plain"
one_failed "$systole" sweep run "$work/plain" --workers 1 >/dev/null

if command -v parallel >/dev/null; then
    plan "$work/parallel" && killer "$work/parallel"
    one_failed "$systole" sweep run "$work/parallel" --engine parallel --workers 2 --chunk 3 --worker-command "$work/parallel/worker.sh" \
        --engine-flag=--retries=1 >/dev/null
    "$systole" sweep status "$work/parallel" | grep -q ' [1-9][0-9]* missing'
    one_failed "$systole" sweep resume "$work/parallel" --engine parallel --workers 2 >/dev/null
    same "$work/parallel" "GNU parallel"
else
    echo "== GNU parallel is not installed: skipped"
fi

if command -v sbatch >/dev/null && command -v slurmctld >/dev/null && command -v munged >/dev/null && [ "$(id -u)" = 0 ]; then
    export DIR=$work/slurm-node
    "$here/slurm_node.sh" start >/dev/null
    trap '"$here/slurm_node.sh" stop' EXIT
    export SLURM_CONF=$DIR/slurm.conf
    plan "$work/slurm" && killer "$work/slurm"
    one_failed timeout 300 "$systole" sweep run "$work/slurm" --engine slurm --chunk 3 --wait --worker-command "$work/slurm/worker.sh" >/dev/null
    "$systole" sweep status "$work/slurm" | grep -q ' [1-9][0-9]* missing'
    one_failed timeout 300 "$systole" sweep resume "$work/slurm" --engine slurm --chunk 3 --wait >/dev/null
    same "$work/slurm" "Slurm"
else
    echo "== Slurm's daemons are not installed, or the user is not root: skipped"
fi

if command -v hq >/dev/null; then
    export HQ_SERVER_DIR=$work/hq-server
    rm -rf "$HQ_SERVER_DIR" && mkdir -p "$HQ_SERVER_DIR"
    hq server start --host 127.0.0.1 >"$work/hq-server.log" 2>&1 &
    server=$!
    sleep 1
    hq worker start --manager none --cpus 2 >"$work/hq-worker.log" 2>&1 &
    worker=$!
    plan "$work/hq" && killer "$work/hq"
    one_failed "$systole" sweep run "$work/hq" --engine hq --chunk 3 --wait --worker-command "$work/hq/worker.sh" >/dev/null
    one_failed "$systole" sweep resume "$work/hq" --engine hq --chunk 3 --wait >/dev/null
    hq server stop >/dev/null 2>&1 || true
    kill "$server" "$worker" 2>/dev/null || true
    same "$work/hq" "HyperQueue"
else
    echo "== HyperQueue is not installed: skipped"
fi
