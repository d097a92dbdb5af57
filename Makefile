# Contador: `make demo` shows it, `make test` checks it. See README.md for what must be there before.

CARGO ?= cargo
DEMO_ARGS ?=
FUZZ_SECONDS ?= 600

.PHONY: help demo programs build test test-deps fmt clippy docs deny fuzz engine clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: programs engine ## everything on this machine: engine, collector, agent, a service under load, a bill
	target/debug/contador demo $(DEMO_ARGS)

programs: ## contador, contador-agent and the NVML simulator
	$(CARGO) build --locked -p contador -p contador-agent -p contador-nvml-simulator

build: ## all of the workspace, tests included
	$(CARGO) build --locked --workspace --all-targets

engine: target/debug/contador ## fetch the embedded ClickHouse engine, checked against the lockfile
	@target/debug/contador clickhouse --fetch-only >/dev/null

test: ## everything that CI runs
	@tests/run.sh

test-deps: ## install what the tests need and this machine lacks
	@tests/setup.sh

fmt: ## formatting
	$(CARGO) fmt --all --check

clippy: ## lints, warnings are errors
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: ## API documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

deny: ## licences, bans and sources of all crates (needs cargo-deny)
	$(CARGO) fetch --locked
	$(CARGO) deny --offline check bans licenses sources

fuzz: ## each parser of foreign bytes for FUZZ_SECONDS (needs a nightly toolchain and cargo-fuzz)
	@tests/fuzz/run.sh $(FUZZ_SECONDS)

target/debug/contador:
	@$(MAKE) --no-print-directory programs

clean: ## remove what was built
	$(CARGO) clean
