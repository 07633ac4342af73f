#!/usr/bin/env bash
# What: starts a private SLURM for the tests: munged, slurmctld and a slurmd for each virtual node, all on this machine,
#       without systemd and cgroups. It shares no port, key or socket with a SLURM that may already be here.
# How:  tests/slurm/start.sh DIR [NODES [CPUS]]   then  export SLURM_CONF=DIR/slurm.conf ; tests/slurm/stop.sh DIR ends it.
# Writes: DIR: configuration, state, logs and process ids. Its path must be short: sockets have at most 107 characters.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

[ $# -ge 1 ] || { echo "start.sh DIR [NODES [CPUS]]" >&2 && exit 2; }
nodes=${2:-2} cpus=${3:-4}
mkdir -p "$1"/{state,log,pid}
dir=$(cd -- "$1" && pwd)
export SLURM_CONF=$dir/slurm.conf
chmod 0755 "$dir"

# until_true SECONDS COMMAND...: polls; false when the time is up
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >>"$dir/log/start.log" 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
give_up() {
  echo "start.sh: $1" >&2
  tail -n 5 "$dir"/log/* >&2
  "$(dirname -- "${BASH_SOURCE[0]}")/stop.sh" "$dir" >&2
  exit 1
}
all_idle() { [ "$(sinfo -h -N -t idle -o %N | wc -l)" -eq "$nodes" ]; }

# One cluster starts at a time on this machine, so that two that start at once do not choose the same ports.
exec {turn}</tmp
flock "$turn"
# Ports that nobody listens on, outside the range from which the kernel gives them to clients.
read -ra ports < <(/usr/bin/env python3 - $((nodes + 1)) <<'PYTHON'
import random, socket, sys

found = []
for port in random.sample(range(20000, 30000), 1000):
    with socket.socket() as one:
        if one.connect_ex(("127.0.0.1", port)) and len(found) < int(sys.argv[1]):
            found.append(port)
print(*found)
PYTHON
)

host=$(hostname -s) user=$(id -un)
{
  cat <<CONF
ClusterName=fluxformer
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$user
SlurmdUser=$user
AuthInfo=socket=$dir/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/%n
TmpFS=$dir/%n.tmp
SlurmctldPidFile=$dir/pid/slurmctld
SlurmdPidFile=$dir/pid/slurmd.%n
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
KillWait=5
OverTimeLimit=20
MinJobAge=3600
EnforcePartLimits=ALL
PropagateResourceLimits=NONE
PartitionName=test Nodes=ALL Default=YES State=UP
CONF
  # One host name and one /dev/shm for all nodes; what tells them apart is the port.
  for ((i = 1; i <= nodes; i++)); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[i]} CPUs=$cpus RealMemory=1000"
  done
} >"$SLURM_CONF"
# slurmd 24 looks for cgroups though nothing here needs them; 22 does not, and does not know the word.
version=$(slurmd -V)
version=${version#* }
if [ "${version%%.*}" -ge 24 ]; then echo CgroupPlugin=disabled >"$dir/cgroup.conf"; fi

mungekey --create --keyfile="$dir/munge.key"
munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/pid/munged" \
  --log-file="$dir/log/munged" --seed-file="$dir/munge.seed" --num-threads=2 || give_up "munged did not start"
slurmctld >>"$dir/log/start.log" 2>&1 || give_up "slurmctld did not start"
for ((i = 1; i <= nodes; i++)); do
  mkdir -p "$dir/n$i" "$dir/n$i.tmp"
  slurmd -N "n$i" >>"$dir/log/start.log" 2>&1 || give_up "slurmd of n$i did not start"
done
until_true 600 all_idle || give_up "the nodes are not idle after ten minutes"
flock --unlock "$turn" # the daemons have it open, too
echo "SLURM with $nodes nodes of $cpus CPUs: export SLURM_CONF=$SLURM_CONF"
