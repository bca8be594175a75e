# Functions for virtual machines whose root directory is one of this machine's, over 9p. Sourced by scripts/test-aarch64 and scripts/test-kernel.

# Writes the first root directory of a machine, packed, to FILE: it loads the modules, mounts the machine's own root directory, and runs
# /opt/stalld/job there, whose output becomes /opt/stalld/log.
#
#   write_first FILE BUSYBOX MODULE...       in the order in which they are loaded
write_first() {
  local file=$1 busybox=$2 first module names=
  shift 2
  first=$(mktemp --directory)
  mkdir -p "$first"/{bin,modules}
  cp "$busybox" "$first/bin/busybox"
  for module in "$@"; do
    case $module in
      *.xz) xz --decompress --stdout "$module" >"$first/modules/$(basename "$module" .xz)" ;;
      *) cp "$module" "$first/modules/" ;;
    esac
    names="$names $(basename "$module" .xz)"
  done
  cat >"$first/init" <<END
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc && mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# Foundation waits for processes by a pair of sockets on it.
ifconfig lo 127.0.0.1 up
for name in$names; do insmod /modules/\$name; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose root /root || poweroff -f
for name in proc sys dev; do mount --move /\$name /root/\$name; done
mkdir -p /root/dev/shm
for name in dev/shm tmp run; do mount -t tmpfs tmpfs /root/\$name; done
chroot /root /bin/bash /opt/stalld/job >/root/opt/stalld/log 2>&1
poweroff -f
END
  chmod +x "$first/init"
  (cd "$first" && find . | cpio --create --format=newc --quiet | gzip -1) >"$file"
  rm -rf "$first"
}

# Runs the machine until its job is done, for SECONDS at most. Its console goes to FILE.
#
#   run_machine SECONDS FILE ROOT COMMAND...       what runs QEMU; options are added
run_machine() {
  local seconds=$1 console=$2 root=$3
  shift 3
  rm -f "$root/opt/stalld/log"
  timeout "$seconds" "$@" -nographic -no-reboot -nic none \
    -fsdev "local,id=root,path=$root,security_model=none,multidevs=remap" -device virtio-9p-pci,romfile=,fsdev=root,mount_tag=root \
    -device virtio-rng-pci,romfile= </dev/null >"$console" 2>&1 || true
  [ -s "$root/opt/stalld/log" ] || { tail --lines=5 "$console" && echo "the machine did not boot" && return 1; }
}

# Compiles the C code of captures with Tests/Platforms/stacks.c, to FOLDER/stacks-0 and FOLDER/stacks-2, by its optimization.
#
#   build_stacks FOLDER ARCHITECTURE ARGUMENT...       ARCHITECTURE is a folder of Sources/CUnwind; the arguments are for the compiler
build_stacks() {
  local built=$1 architecture=$2 level
  shift 2
  for level in 0 2; do
    clang "$@" -Wall -Wextra -Werror -g -O$level -fno-optimize-sibling-calls -DBLOCK_MS=400 -ISources/CUnwind/include -o "$built/stacks-$level" \
      Tests/Platforms/stacks.c Sources/CUnwind/*.c Sources/CUnwind/"$architecture"/*.c -lpthread || return
  done
}

# Compiles the programs in C of Tests/Platforms to ROOT/opt/stalld, with and without optimization. libstallmonitor.so.1 is there.
#
#   build_programs ROOT ARCHITECTURE ARGUMENT...       as of `build_stacks`
build_programs() {
  local built=$1/opt/stalld architecture=$2 level
  shift 2
  build_stacks "$built" "$architecture" "$@" || return
  for level in 0 2; do
    clang "$@" -Wall -Wextra -Werror -g -O$level -fno-optimize-sibling-calls -rdynamic -ISources/CStallMonitor/include -o "$built/service-$level" \
      Tests/Platforms/service.c -L"$built" -l:libstallmonitor.so.1 -Wl,--allow-shlib-undefined -lpthread || return
  done
}

# Prints the part of a job that runs these programs. Reports become /opt/stalld/reports-*.
job_of_programs() {
  cat <<'END'
cd /tmp
export LD_LIBRARY_PATH=/usr/lib/swift/linux:/opt/stalld STALLMONITOR_THRESHOLD=100ms
uname -r
for level in 0 2; do
  timeout 120 /opt/stalld/stacks-$level
  echo "stacks -O$level: $?"
  timeout 150 /opt/stalld/service-$level $level >/opt/stalld/reports-$level
  echo "service -O$level: $?"
done
# Where perf events need a privilege, running threads are sampled by the timer.
for stall in computing leaf sorting; do
  timeout 60 setpriv --bounding-set=-all --inh-caps=-all --reuid=1000 --clear-groups /opt/stalld/service-2 1 $stall >/opt/stalld/reports-timer-$stall
  echo "service -O2 without privileges, $stall: $?"
done
END
}

# Prints the end of the part of a job that runs programs.
end_of_programs() { echo 'echo "all programs have ended"'; }

# Judges what the programs of a job have done.
#
#   judge_programs LEG ROOT
judge_programs() {
  local leg=$1 root=$2 failed=0
  ! grep --quiet --extended-regexp '(stacks|service|tasks) .*: [1-9][0-9]*$' "$root/opt/stalld/log" || failed=1
  grep --quiet '^all programs have ended$' "$root/opt/stalld/log" || { echo "$leg: not all programs were run to their end" && failed=1; }
  Tests/Platforms/judge "$root"/opt/stalld/reports-* || failed=1
  return $failed
}

# Adds to `shares` what QEMU needs so that a folder can be mounted in the machine, by this tag.
#
#   share_read_only TAG FOLDER
shares=()
share_read_only() {
  shares+=(-fsdev "local,id=$1,path=$2,security_model=none,readonly=on" -device "virtio-9p-pci,romfile=,fsdev=$1,mount_tag=$1")
}

# Prints the part of a job that mounts what is shared, at the same place.
mount_shared() {
  echo "mkdir -p $2 && mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro $1 $2"
}

# Lists the suites, or modules, of tests that a machine runs: SUITES, or all but those that build packages, which takes hours there.
list_suites() {
  # shellcheck disable=SC2086
  [ -z "${SUITES:-}" ] || { printf '%s\n' $SUITES && return; }
  printf '%s\n' LoopEngineTests StallReportTests DescriptorIOTests
  grep --recursive --no-filename --only-matching --extended-regexp '(struct|class|enum) [A-Za-z]+Tests\b' Tests/{StallMonitorTests,StalldTests,MatrixTests} |
    awk '{ print $2 }' | sort --unique | grep --invert-match --line-regexp 'PublicInterfaceTests\|DocumentedProgramTests'
}

# Prints the part of a job that runs suites: each by itself, for SUITE_SECONDS at most, so that one that hangs does not hide the others. The
# checkout is shared. BUILT has the folders `debug` and `release`. Tests find programs in .build, and write there: /opt/stalld/build takes its place.
#
#   job_of_suites BUILT SUITE...
job_of_suites() {
  local built=$1
  shift
  mount_shared checkout "$PWD"
  cat <<END
for configuration in debug release; do
  mkdir -p /opt/stalld/build/\$configuration && mount --bind $built/\$configuration /opt/stalld/build/\$configuration
done
mount --rbind /opt/stalld/build $PWD/.build
ln -sfn /proc/self/fd /dev/fd
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
# For processor quotas.
mount -t cgroup2 none /sys/fs/cgroup && echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
cd $PWD
uname -r
# Tests have more than a thousand sockets.
ulimit -n 4096
export TEST_MACHINE=${TEST_MACHINE-emulated} TEST_BUILD=release STALLTEST_CAPTURES=100 HOME=/root
for suite in $*; do
  filter="^(\$suite\.|[A-Za-z]+\.(.*/)?\$suite/)"
  start=\$SECONDS status=0
  # RecipeTests run the compiler, which takes minutes here.
  timeout ${SUITE_SECONDS:-1800} .build/debug/stalldPackageTests.xctest --testing-library swift-testing --no-parallel --skip RecipeTests \
    --filter "\$filter" >/opt/stalld/tests-\$suite 2>&1 || status=\$?
  echo "\$suite \$status \$((SECONDS - start))"
done
END
}

# Prints of each suite how many tests passed, failed and were skipped, and what failed. With chroot.sh.
#
#   show_suites LEG ROOT SUITE...
show_suites() {
  local leg=$1 root=$2 suite status seconds log last failed=0
  shift 2
  while read -r suite status seconds; do
    log=$root/opt/stalld/tests-$suite
    case $status in 0) last= ;; 124) last=", stopped by its time limit" ;; *) last=", exit code $status" ;; esac
    count() { grep --text --invert-match ' Test run with ' "$log" | grep --count "$1" || true; }
    # One that was repeated, as the machine was paused, passes with a known issue.
    echo "$leg: $suite: $(count '^\(✔\|✘\) Test .* passed after') passed, $(count '^✘ Test .* failed after') failed," \
      "$(count '^➜ Test ') skipped, $(count ' recorded a known issue') repetitions, $seconds s$last"
    [ "$status" -eq 0 ] || show_tests "$log" || true
    grep --text '^➜ Test ' "$log" || true
    [ "$status" -eq 0 ] && grep --quiet --text ' Test run with [1-9].* passed after' "$log" || failed=1
  done < <(grep --extended-regexp '^[A-Za-z]+ [0-9]+ [0-9]+$' "$root/opt/stalld/log")
  # Those that the machine's time limit left no time for.
  for suite in "$@"; do
    grep --quiet "^$suite " "$root/opt/stalld/log" || { echo "$leg: $suite: not run to its end" && failed=1; }
  done
  return $failed
}
