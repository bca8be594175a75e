# The commands of this repository. `make demo` and `make test` need nothing but Debian 12 and Swift 6.3.

SWIFT ?= swift

# What the library is built against and opens at run time.
LIBRARIES := libunwind-dev libdw-dev
# What the tests judge by.
JUDGES := binutils debianutils libstdc++-12-dev python3-jsonschema xz-utils

FUZZ_SECONDS ?= 60

.PHONY: demo test fuzz bench lint format clean

demo: ## A host with known stalls: report lines on standard output, an account on standard error.
	@scripts/install-dependencies $(LIBRARIES)
	@$(SWIFT) build --configuration release --product stalld >&2
	@"$$($(SWIFT) build --configuration release --show-bin-path)/stalld" demo

test: ## All tests; the victims in debug and in release.
	@scripts/install-dependencies $(LIBRARIES) $(JUDGES)
	$(SWIFT) build --configuration release --product StallVictim
	$(SWIFT) build --configuration release --product stalld
	$(SWIFT) test --skip CaptureSuites
	@# Beside these, which keep two processors busy, other tests' victims would starve.
	$(SWIFT) test --skip-build --filter CaptureSuites

bench: ## The monitor's benchmarks: a table, and Benchmarks/results/*.json.
	@scripts/install-dependencies $(LIBRARIES)
	$(SWIFT) run --configuration release --package-path Benchmarks/Monitor bench-monitor

fuzz: ## The unwinder under libFuzzer and the address sanitizer, for FUZZ_SECONDS; finds are kept in .build/fuzz.
	@scripts/install-dependencies $(LIBRARIES) libstdc++-12-dev
	mkdir -p .build/fuzz/corpus
	clang -g -O1 -fsanitize=fuzzer,address -DFUZZ_WITH_LIBFUZZER -ISources/CUnwind/include -ITests/Fuzz/Unwind/include \
	  -o .build/fuzz/unwind Tests/Fuzz/Unwind/unwind.c $(addprefix Sources/CUnwind/,unwind.c unwind_code.c memory.c \
	  libunwind_table.c)
	.build/fuzz/unwind -max_total_time=$(FUZZ_SECONDS) -timeout=5 -max_len=4096 -artifact_prefix=.build/fuzz/ \
	  .build/fuzz/corpus Tests/Fuzz/seeds/unwind

lint: ## The formatter's check.
	$(SWIFT) format lint --strict --parallel --recursive Package.swift Sources Tests Benchmarks Examples

format:
	$(SWIFT) format --in-place --parallel --recursive Package.swift Sources Tests Benchmarks Examples

clean:
	rm -rf .build Benchmarks/*/.build Examples/*/.build
