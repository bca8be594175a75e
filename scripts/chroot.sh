# Functions for chroots of Debian suites in .build/platforms. Sourced by scripts/test-platforms and scripts/test-aarch64, in the checkout.

chroot_checkout=$PWD chroot_place=$PWD/.build/platforms

# Packages that differ in name between suites come last.
chroot_packages=libunwind8,libunwind-dev,libdw-dev,gcc,g++,make,pkg-config,libc6-dev,libuv1-dev,libglib2.0-dev,libyaml-dev,libmicrohttpd-dev,zlib1g-dev,procps,python3-jsonschema

# Makes a chroot. Prints why it cannot be had.
#
#   make_chroot NAME SUITE [PACKAGE,...]       with more packages than all have
make_chroot() {
  local name=$1 suite=$2 root=$chroot_place/$1 mirror=${MIRROR:-http://deb.debian.org/debian} options=() script=
  case $suite in
    # Debian has no key of Ubuntu's. debootstrap has one way to make all of its suites, and names for some.
    jammy | noble)
      mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} script=gutsy
      options=(--no-check-gpg --components=main,universe)
      ;;
  esac
  [ ! -e "$root/.made" ] || return 0
  [ "$(id -u)" -eq 0 ] || { echo "a chroot needs root" && return 1; }
  scripts/install-dependencies debootstrap >&2 || { echo "debootstrap could not be installed" && return 1; }
  rm -rf "$root"
  mkdir -p "$chroot_place/packages-$suite"
  timeout "${DOWNLOAD_SECONDS:-900}" debootstrap --variant=minbase "${options[@]}" --cache-dir="$chroot_place/packages-$suite" \
    --include="$chroot_packages${3:+,$3}" "$suite" "$root" "$mirror" $script >"$chroot_place/$name.log" 2>&1 ||
    { echo "debootstrap did not work: $(tail -n 1 "$chroot_place/$name.log")" && return 1; }
  # Linkers outside of the chroot do not find what absolute links lead to.
  ! loader=$(readlink "$root/lib64/ld-linux-x86-64.so.2") || ln -sf "..${loader#..}" "$root/lib64/ld-linux-x86-64.so.2"
  touch "$root/.made"
}

# Makes a library that Debian's package of Swift 6.2 lacks, and of which no test uses anything.
#
#   make_missing_library ROOT ARCHITECTURE
make_missing_library() { echo '!<arch>' >"$1/usr/lib/$2-linux-gnu/lib_Testing_Foundation.a"; }

# Makes the chroot with Swift 6.2, which is Debian sid's. Prints why it cannot be had.
make_swift_chroot() {
  local root=$chroot_place/swift-6.2 repository
  make_chroot swift-6.2 sid swiftlang,git,ca-certificates || return 1
  make_missing_library "$root" "$(uname -m)"
  compgen -G '.build/repositories/*' >/dev/null || { echo "the dependencies are not here (swift build)" && return 1; }
  # The dependencies come from where this checkout has them, which may have moved.
  rm --force "$root/root/.gitconfig"
  for repository in .build/repositories/*; do
    git config --file "$root/root/.gitconfig" "url.file://$chroot_checkout/$repository.insteadOf" "$(git -C "$repository" config remote.origin.url)"
  done
  git config --file "$root/root/.gitconfig" --replace-all safe.directory '*'
}

# Runs a command in a chroot, in a process and a mount namespace of its own, with the checkout and the Swift runtime at their places.
in_chroot() {
  local root=$chroot_place/$1 swift
  shift
  swift=$(dirname "$(dirname "$(dirname "$(readlink -f "$(command -v "${SWIFT:-swift}")")")")")
  # The command is not the first process of its namespace: that one ignores most signals.
  root=$root checkout=$chroot_checkout swift=$swift unshare --mount --propagation private --pid --fork --kill-child bash -c '
    # A mount of its own, as tests make namespaces in it. That hides what lies below it until now.
    mkdir -p "$root$checkout" "$root$swift"
    mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
      mount --bind "$checkout" "$root$checkout" && mount --bind "$swift" "$root$swift" || exit 1
    chroot "$root" /usr/bin/env -i -C "$checkout" HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin:"$swift/usr/bin" LANG=C.UTF-8 "$@"
    exit $?' _ "$@"
}

# Prints what failed in a log of tests, and how many ran. The number that a run of tests passes has those that are skipped, too.
show_tests() {
  echo "skipped tests: $(grep --text --count '^➜ Test ' "$1" || true), repetitions: $(grep --text --count ' recorded a known issue' "$1" || true)"
  grep --text --extended-regexp '✘ Test .*recorded an issue|^↳ [^/]|(✔|✘|━) Test run with' "$1" | grep --text --invert-match 'Platform:\|Version:' |
    cut --characters=1-300 | tail --lines=30
}
