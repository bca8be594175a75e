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
#   run_machine SECONDS FILE ROOT QEMU ARGUMENT...
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
      Tests/Platforms/stacks.c Sources/CUnwind/*.c Sources/CUnwind/"$architecture"/*.c -lpthread
  done
}

# Compiles the programs in C of Tests/Platforms to ROOT/opt/stalld, with and without optimization. libstallmonitor.so.1 is there.
#
#   build_programs ROOT ARCHITECTURE ARGUMENT...       as of `build_stacks`
build_programs() {
  local built=$1/opt/stalld architecture=$2 level
  shift 2
  build_stacks "$built" "$architecture" "$@"
  for level in 0 2; do
    clang "$@" -Wall -Wextra -Werror -g -O$level -fno-optimize-sibling-calls -rdynamic -ISources/CStallMonitor/include -o "$built/service-$level" \
      Tests/Platforms/service.c -L"$built" -l:libstallmonitor.so.1 -Wl,--allow-shlib-undefined -lpthread
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
done
# Without perf events, running threads are sampled by the timer.
for stall in computing leaf sorting; do
  timeout 60 setpriv --bounding-set=-all --inh-caps=-all --reuid=1000 --clear-groups /opt/stalld/service-2 1 $stall >/opt/stalld/reports-timer-$stall
done
END
}
