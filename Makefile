# ingestd: `make demo` shows it, `make test` proves it, `make help` lists the rest.

SWIFT  ?= swift
PREFIX ?= /usr/local
DESTDIR ?=
# Seconds for each target of `make fuzz`.
FUZZ_SECONDS ?= 60

# Debug builds are optimised too (Package.swift): the tests are most of what they are for.
export INGESTD_OPTIMISED ?= 1

.DEFAULT_GOAL := help
.PHONY: help bootstrap build demo test hostile crash mutants race style lint format docs bench fuzz install clean bench-full

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

bootstrap: ## install what a build needs and is missing (liblz4-dev, libsqlite3-dev, tzdata), by apt-get
	@scripts/bootstrap

build: bootstrap ## build the programs, optimised
	$(SWIFT) build -c release

demo: bootstrap ## start ingestd on a temporary directory, send it real events, print the counters, verify
	@scripts/demo

test: bootstrap ## build and run the whole test suite
	@scripts/python-env
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build

hostile: bootstrap ## send a real daemon a million packets of each kind that is made to harm, and print what became of them
	$(SWIFT) build --build-tests
	INGESTD_HOSTILE_COUNT=1000000 $(SWIFT) test --skip-build --filter HostileTests

crash: bootstrap ## run 1,000 scripts of kills, power cuts and failing disks on the simulated disk
	scripts/faults 1000

mutants: bootstrap ## make small mistakes in a copy of the sources, one by one, and expect a test to notice, an hour
	scripts/mutants

race: bootstrap ## run the tests of the ring under ThreadSanitizer
	@scripts/race

style: bootstrap ## formatting of Swift, shell scripts
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	scripts/lint-shell

lint: style ## the same and the rules of the house (tidy)
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build --filter TidyTests

format: ## rewrite all sources as .swift-format says
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests Benchmarks

docs: bootstrap ## build the reference of the library IngestReader, into .build/docs
	$(SWIFT) build --target IngestReader
	scripts/docs

bench: programs ## measure daemon and reader on this machine, some minutes
	.build/release/ingest-bench throughput
	.build/release/ingest-bench figures
	.build/release/ingest-bench micro path json
	scripts/hot-calls

bench-full: programs ## the same at the size that the goals are stated for, three quarters of an hour
	.build/release/ingest-bench ladder
	.build/release/ingest-bench figures --full
	.build/release/ingest-bench paths
	.build/release/ingest-bench tenants

.PHONY: programs
programs: bootstrap
	$(SWIFT) build -c release --product ingestd
	$(SWIFT) build -c release --product ingest-reader
	$(SWIFT) build -c release --product ingest-bench

fuzz: bootstrap ## fuzz every decoder with libFuzzer, FUZZ_SECONDS (60) each
	scripts/fuzz $(FUZZ_SECONDS)

install: build ## install the programs below PREFIX (default /usr/local)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/ingestd"
	install -m 755 .build/release/ingestd .build/release/ingest-reader \
	    .build/release/ingest-reader-sqlite .build/release/ingest-send "$(DESTDIR)$(PREFIX)/bin/"
	install -m 644 proto/ingest/v1/events.proto "$(DESTDIR)$(PREFIX)/share/ingestd/"

clean: ## remove what the build made
	rm -rf .build
