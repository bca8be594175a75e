# The commands of this repository. `make demo` and `make test` need nothing but Debian 12 and Swift 6.3.

SWIFT ?= swift

# What the library is built against and opens at run time.
LIBRARIES := libunwind-dev libdw-dev
# What the command is built with besides.
COMMAND_LIBRARIES := libmicrohttpd-dev libyaml-dev zlib1g-dev

# What the tests judge by.
JUDGES := binutils bsdutils debianutils libstdc++-12-dev logrotate prometheus python3-jsonschema python3-venv python3-yaml rsyslog systemd-container xz-utils
# What pictures and exports are judged by: large packages, and so a target of their own. Without them `make test` skips those tests.
PICTURE_JUDGES := chromium fonts-dejavu-core golang-github-google-pprof-dev golang-go gzip libdevel-nytprof-perl protobuf-compiler python3-jsonschema
# Services in C.
C_HOSTS := gcc g++ libc6-dev libglib2.0-dev libuv1-dev make pkg-config

# What makes and judges the Debian package.
PACKAGERS := debhelper dpkg-dev lintian

# The run loops that ours is measured beside.
PEERS := libuv1-dev libev-dev libevent-dev libglib2.0-dev

# What captures are measured beside.
DEBUGGERS := elfutils gdb libstdc++-12-dev

FUZZ_SECONDS ?= 60

# How often `make matrix` runs each scenario; MATRIX_SCENARIOS is `transfers`, `hosts` or words of their names.
MATRIX_RUNS ?= 20
MATRIX_SCENARIOS ?=

# `make corpus CORPUS=short` runs two builds of each program instead of all; CORPUS=update records what is reported now.
CORPUS ?= full

.PHONY: demo check fleet-judge picture-judges rsyslog test test-shared-agent test-long test-platforms matrix corpus test-fleet test-integrations test-traits test-pictures install other-stalld install-library uninstall agent deb test-deb examples fuzz sanitize structure system-calls bench bench-monitor bench-capture bench-loop bench-nio bench-hummingbird bench-report bench-agent lint format clean

demo: ## A service with known stalls: report lines on standard output, a summary on standard error.
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES)
	@$(SWIFT) build --configuration release --product stalld >&2
	@"$$($(SWIFT) build --configuration release --show-bin-path)/stalld" demo

# Judges that are not installed on the machine: `Tests/Support/unpack-NAME` brings NAME into .build/judges/NAME.
UNPACKED := $(patsubst Tests/Support/unpack-%,.build/judges/%/installed,$(wildcard Tests/Support/unpack-*))

# What tests need to run, in any form.
define prepare-tests
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES) $(JUDGES) $(C_HOSTS)
	@$(MAKE) --no-print-directory .build/judges/python/installed $(UNPACKED)
	@SWIFT="$(SWIFT)" scripts/build-test-programs
endef

test: ## All tests, some in a short form: hostile users of one agent (`make test-shared-agent`), kills, captures (`make test-long`: all of them whole).
	$(prepare-tests)
	$(SWIFT) test

check: ## What `.ci/run` leaves out, since it takes half an hour: structure, traits, another Debian and another processor, sanitizers.
	$(MAKE) structure
	$(MAKE) test-traits TRAITS=--short
	$(MAKE) test-platforms PLATFORMS=--short
	$(MAKE) sanitize

test-shared-agent: ## An agent that users share who do not trust each other, under a booted systemd: all attacks and losses; some minutes.
	$(prepare-tests)
	TEST_FORM=long $(SWIFT) test --filter SharedAgentTests

test-long: ## All tests, each in its long form; half an hour.
	$(prepare-tests)
	TEST_FORM=long $(SWIFT) test

matrix: ## Transfers and hostile services, watched and not watched, MATRIX_RUNS times: a summary of what differs.
	@scripts/install-dependencies $(LIBRARIES) $(C_HOSTS)
	scripts/build-c-library "$(CURDIR)/.build/c-library/root"
	$(SWIFT) build --product run-matrix
	"$$($(SWIFT) build --show-bin-path)/run-matrix" $(MATRIX_RUNS) $(MATRIX_SCENARIOS)

corpus: ## The corpus of stalls: responsible function, cause, fingerprint and message of each, compared with what is true and recorded.
	@scripts/install-dependencies $(LIBRARIES) $(C_HOSTS) binutils libstdc++-12-dev
	scripts/build-c-library "$(CURDIR)/.build/c-library/root"
	scripts/run-corpus --$(CORPUS)

# A leg of scripts/test-platforms, such as trixie, sid or aarch64; or `--short`.
PLATFORMS ?=

test-platforms: ## Captures on other Debian suites, in chroots under .build/platforms (2 GB; PLATFORMS=--short: trixie, and stacks in C on aarch64). As root.
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES)
	$(SWIFT) build --build-tests
	[ "$(PLATFORMS)" = --short ] || SWIFT="$(SWIFT)" scripts/build-test-programs >/dev/null
	scripts/test-platforms $(PLATFORMS)

test-fleet: ## The queries for a fleet on ClickHouse, which is 900 MB; on DuckDB they are part of `make test`.
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES) $(JUDGES) $(C_HOSTS)
	@$(MAKE) --no-print-directory .build/judges/python/installed fleet-judge
	$(SWIFT) test --filter FleetTests

fleet-judge:
	@scripts/install-dependencies $(JUDGES)
	@$(MAKE) --no-print-directory .build/judges/clickhouse/installed

.build/judges/%/installed: Tests/Support/unpack-%
	$< $(@D)
	touch $@

# Python wheels that tests judge by, each set in an environment of its own.
.build/judges/python/installed: Tests/Support/requirements.txt
.build/judges/clickhouse/installed: Tests/Support/requirements-clickhouse.txt
.build/judges/%/installed:
	/usr/bin/python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

test-integrations: ## The tests of the packages under Integrations/, which resolve what they integrate.
	@scripts/install-dependencies $(LIBRARIES) $(JUDGES)
	@# A package without sources of its own is for the traits: `make test-traits`.
	for sources in Integrations/*/Sources; do $(SWIFT) test --package-path $$(dirname $$sources) || exit 1; done

test-traits: ## The library with no trait, with each alone, with all, and with all for another platform; and the tests of the traits. TRAITS=--short omits each alone.
	@scripts/install-dependencies $(LIBRARIES) $(JUDGES)
	@SWIFT="$(SWIFT)" scripts/test-traits $(TRAITS)

test-pictures: ## `stalld report --html` in a headless Chromium, and exports by the programs that they are for.
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES)
	@$(MAKE) --no-print-directory picture-judges
	$(SWIFT) test --filter 'ReportPageTests|ReportExportTests'

picture-judges:
	@scripts/install-dependencies $(PICTURE_JUDGES)

PREFIX ?= /usr/local

install: other-stalld agent ## The command with its units, settings, manual and completions; libstallmonitor for services in C. PREFIX and DESTDIR as usual.
	scripts/install-files "$(PREFIX)" agent scripts/install-agent
	scripts/install-files "$(PREFIX)" library scripts/build-c-library
	@scripts/refresh-loader "$(PREFIX)/lib"
	@[ -n "$(DESTDIR)" ] || echo "Installed. Next: start the agent and watch a service, as Documentation/Installation.md shows."

# Before the build, which takes minutes.
other-stalld:
	@scripts/check-prefix PREFIX "$(PREFIX)"
	@scripts/check-other-stalld "$(PREFIX)"

install-library: ## libstallmonitor for services in C, without the agent. PREFIX and DESTDIR as usual.
	@scripts/check-prefix PREFIX "$(PREFIX)"
	@scripts/install-dependencies $(LIBRARIES)
	scripts/install-files "$(PREFIX)" library scripts/build-c-library
	@scripts/refresh-loader "$(PREFIX)/lib"
	@[ -n "$(DESTDIR)" ] || echo "Installed in $(PREFIX). Next: compile a service, as Documentation/GettingStarted/CService.md shows."

uninstall: ## What `make install` and `make install-library` wrote. Settings and reports stay. PREFIX and DESTDIR as they were.
	@scripts/uninstall "$(PREFIX)"

agent: ## The command as it is installed, in .build/agent: no Swift is needed where it runs.
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES) binutils
	scripts/build-agent

deb: agent ## The Debian packages stalld-agent, libstallmonitor1 and libstallmonitor-dev, in .build/deb, judged by lintian.
	@scripts/install-dependencies $(PACKAGERS)
	scripts/build-deb

test-deb: agent ## Installs, upgrades and purges the packages in a clean Debian 12, and starts the agent under a systemd.
	@scripts/install-dependencies $(PACKAGERS) $(C_HOSTS) debootstrap systemd-container
	scripts/test-deb

examples: ## Builds the examples and runs each once.
	@scripts/install-dependencies $(LIBRARIES) $(C_HOSTS)
	@scripts/run-examples

bench: bench-monitor bench-capture ## What watching costs. `make bench-loop` is apart: it builds eight run loops.

bench-monitor: ## A table, and Benchmarks/results/monitor.json.
	@scripts/install-dependencies $(LIBRARIES)
	$(SWIFT) run --configuration release --package-path Benchmarks/Monitor bench-monitor

bench-capture: ## Beside eu-stack and gdb: a table, Benchmarks/results/capture.json and Documentation/CaptureCost.md.
	@scripts/install-dependencies $(LIBRARIES) $(DEBUGGERS)
	@# What is measured is internal to the library, so it is opened as for tests; optimized all the same.
	$(SWIFT) build --configuration release --package-path Benchmarks/Capture -Xswiftc -enable-testing
	$$($(SWIFT) build --configuration release --package-path Benchmarks/Capture --show-bin-path)/bench-capture

bench-loop: ## Ours beside seven other run loops, on one processor: a table, Benchmarks/results/loop.json and a chart.
	@scripts/install-dependencies $(LIBRARIES) $(PEERS)
	$(SWIFT) build --configuration release --package-path Benchmarks/Loop --product LoopBenchmark
	taskset --cpu-list 0 $$($(SWIFT) build --configuration release --package-path Benchmarks/Loop --show-bin-path)/LoopBenchmark \
	  --json Benchmarks/results/loop.json --svg Documentation/loop.svg --markdown Documentation/loop-table.md

bench-nio: ## Throughput of an echo server on SwiftNIO, watched and not: a table, and Benchmarks/results/nio.json.
	@scripts/install-dependencies $(LIBRARIES)
	$(SWIFT) run --configuration release --package-path Integrations/StallMonitorNIO bench-nio

bench-hummingbird: ## Requests a second of Examples/hummingbird-service under wrk, watched and not; then whether each blocked request is reported, for ten minutes.
	@scripts/install-dependencies $(LIBRARIES) python3 wrk
	$(SWIFT) build --configuration release --package-path Examples/hummingbird-service
	Benchmarks/Hummingbird/bench.py throughput --json Benchmarks/results/hummingbird.json \
	  "$$($(SWIFT) build --configuration release --package-path Examples/hummingbird-service --show-bin-path)/hummingbird-service"
	Benchmarks/Hummingbird/bench.py accuracy \
	  "$$($(SWIFT) build --configuration release --package-path Examples/hummingbird-service --show-bin-path)/hummingbird-service"

bench-report: ## A million report lines through `stalld report`, beside jq: a table, and Benchmarks/results/report.json.
	@scripts/install-dependencies $(LIBRARIES) $(COMMAND_LIBRARIES) jq python3 time
	$(SWIFT) build --configuration release --product stalld
	Benchmarks/Report/bench.py "$$($(SWIFT) build --configuration release --show-bin-path)/stalld"

bench-agent: rsyslog agent ## A thousand services and ten thousand reports a second: a table, Benchmarks/results/agent.json, Documentation/AgentCost.md.
	mkdir -p .build/bench
	strip --strip-all -o .build/bench/stalld .build/agent/stalld
	$(SWIFT) build --configuration release --package-path Benchmarks/Agent
	taskset --cpu-list 1 $$($(SWIFT) build --configuration release --package-path Benchmarks/Agent --show-bin-path)/bench-agent \
	  "$(CURDIR)/.build/bench/stalld" Documentation/AgentCost.md

# What the agent is measured beside; before the build, which takes minutes.
rsyslog:
	@scripts/install-dependencies rsyslog

FUZZER := clang -g -O1 -fsanitize=fuzzer,address -DFUZZ_WITH_LIBFUZZER

# What the agent and services read that others have written: lines, settings, and files of processes that have ended.
AGENT_READERS := lines settings spool
AGENT_FUZZER := --package-path Tests/Fuzz/Agent --scratch-path .build/fuzz/agent-build --sanitize fuzzer --sanitize address

fuzz: ## Unwinding, symbols and the agent's readers under libFuzzer and the address sanitizer, FUZZ_SECONDS in all; finds are kept in .build/fuzz.
	@scripts/install-dependencies $(LIBRARIES) libyaml-dev libstdc++-12-dev
	mkdir -p $(addprefix .build/fuzz/,$(addsuffix -corpus,unwind symbols $(AGENT_READERS)))
	$(FUZZER) -ISources/CUnwind/include -ITests/Fuzz/Unwind/include -o .build/fuzz/unwind Tests/Fuzz/Unwind/unwind.c \
	  $(wildcard Sources/CUnwind/*.c Sources/CUnwind/*/*.c)
	$(FUZZER) -ISources/CSymbols/include -o .build/fuzz/symbols Tests/Fuzz/Symbols/symbols.c $(wildcard Sources/CSymbols/*.c)
	$(SWIFT) build $(AGENT_FUZZER)
	@# The shipped settings with their defaults, without the sentences.
	sed '/^ *# [^ ]/d; s/#//' Config/stalld.yaml >.build/fuzz/settings-corpus/shipped
	.build/fuzz/unwind -max_total_time=$$(($(FUZZ_SECONDS) / 5)) -timeout=5 -max_len=4096 \
	  -artifact_prefix=.build/fuzz/unwind- .build/fuzz/unwind-corpus Tests/Fuzz/seeds/unwind
	.build/fuzz/symbols -max_total_time=$$(($(FUZZ_SECONDS) / 5)) -timeout=5 -max_len=16384 \
	  -artifact_prefix=.build/fuzz/symbols- .build/fuzz/symbols-corpus Tests/Fuzz/seeds/symbols
	@# Swift's own handler of crashes can hang for minutes in a sanitized process.
	for reader in $(AGENT_READERS); do \
	  FUZZ=$$reader SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 \
	    "$$($(SWIFT) build $(AGENT_FUZZER) --show-bin-path)/FuzzAgent" -max_total_time=$$(($(FUZZ_SECONDS) / 5)) -timeout=5 \
	    -max_len=4096 -artifact_prefix=.build/fuzz/$$reader- .build/fuzz/$$reader-corpus Tests/Fuzz/seeds/$$reader || exit 1; \
	done

SANITIZE ?= short

sanitize: ## The loop and the pulse under the thread sanitizer, captures and victims under the address sanitizer; SANITIZE=full does more.
	@scripts/install-dependencies $(LIBRARIES) $(JUDGES)
	@SWIFT="$(SWIFT)" scripts/sanitize $(SANITIZE)

# From the top of the table to the bottom: while a target is built, nothing below it exists that it could import.
# The library of regular expressions, which the compiler imports by itself, makes a static executable 1.3 MB larger.
WITHOUT_REGEX := -Xswiftc -Xfrontend -Xswiftc -disable-implicit-string-processing-module-import

system-calls: ## The tables of system calls, from the kernel's headers in HEADERS (the installed ones) and the running kernel; as root.
	scripts/generate-system-calls $(HEADERS)

structure: ## Targets import what the table in ARCHITECTURE.md allows, and nothing else; files and functions that are too long.
	@scripts/install-dependencies $(LIBRARIES)
	SWIFT="$(SWIFT)" scripts/check-structure
	scripts/check-folders
	rm -rf .build/structure
	for target in $$(scripts/check-structure --libraries); do \
	  $(SWIFT) build --scratch-path .build/structure --explicit-target-dependency-import-check error $(WITHOUT_REGEX) --target $$target || exit 1; \
	done

lint: ## The formatter's check, plain words in text for people, and lines of prose of at most 100 columns.
	scripts/check-words --comments
	scripts/check-words --columns
	scripts/check-folders
	$(SWIFT) format lint --strict --parallel --recursive Package.swift Sources Tests Benchmarks Examples Integrations

format:
	$(SWIFT) format --in-place --parallel --recursive Package.swift Sources Tests Benchmarks Examples Integrations

clean:
	rm -rf .build .build-asan .build-tsan Benchmarks/*/.build Examples/*/.build Integrations/*/.build Examples/*-service/*-service
