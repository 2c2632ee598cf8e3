# make help says what there is. Everything but `make deps` runs as an ordinary user.

# Swift: $SWIFT, else the one in PATH, else where its tarball is often unpacked.
SWIFT ?= $(firstword $(shell command -v swift) $(wildcard /opt/swift/usr/bin/swift) swift)
# One set of flags for every build, so that none undoes another's work.
FLAGS := --explicit-target-dependency-import-check error
RELEASE := -c release --static-swift-stdlib $(FLAGS)
SOURCES := Sources Tests Package.swift
ENGINE ?= $(firstword $(notdir $(shell command -v docker || command -v podman)) docker)

export SWIFT
.DEFAULT_GOAL := build
.PHONY: help deps build demo test lint docker bench simulation simulate soak clean

help:
	@echo 'make build     the release binary: .build/release/upspool'
	@echo 'make demo      uploads three files to a web server of its own and compares them'
	@echo 'make test      all tests'
	@echo 'make lint      the format check'
	@echo 'make bench     small jobs beside a bare libcurl loop'
	@echo 'make simulate  100,000 histories of a simulated world with faults, from seeds'
	@echo 'make soak      the same for as long as asked: make soak SECONDS=3600'
	@echo 'make docker    the container image upspool:latest'
	@echo 'make deps      installs what the above need (part of build, demo, test and bench)'
	@echo 'make clean     removes .build/'

deps:
	@.ci/deps

build: deps
	@$(SWIFT) build $(RELEASE) --product upspool

demo: build
	@.ci/demo "$$($(SWIFT) build $(RELEASE) --show-bin-path)/upspool"

test: deps
	@$(SWIFT) build $(FLAGS) --build-tests
	@$(SWIFT) test $(FLAGS) --skip-build --disable-xctest

lint: deps
	@$(SWIFT) format lint --strict -r $(SOURCES)

docker:
	$(ENGINE) build -f docker/Dockerfile -t upspool .

bench: build
	@.ci/bench "$$($(SWIFT) build $(RELEASE) --show-bin-path)/upspool"

simulation: deps
	@$(SWIFT) build $(RELEASE) --product simulation

simulate: simulation
	@.ci/simulate "$$($(SWIFT) build $(RELEASE) --show-bin-path)/simulation" $(or $(FIRST),1) $(or $(COUNT),100000)

# Other histories each time.
soak: simulation
	@.ci/simulate "$$($(SWIFT) build $(RELEASE) --show-bin-path)/simulation" \
	  $$(date +%s)000000 $(or $(SECONDS),3600)s

clean:
	rm -rf .build
