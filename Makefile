# Posthouse: every command a contributor needs. `make help` lists them.

GO       ?= go
CC       ?= cc
BIN      := bin/posthouse
# giouring reaches syscall.munmap by linkname, which the linker refuses
# since Go 1.23 unless told not to check.
TAGS     := iouring
LDFLAGS  := -checklinkname=0
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STAMP    := -X github.com/posthouse/posthouse/cmd/broker.Version=$(VERSION)
URING    := -tags $(TAGS) -ldflags=$(LDFLAGS)
TESTFLAGS ?=
FUZZTIME ?= 60s
BENCH    ?= .
BENCHTIME ?= 1s
BENCHCOUNT ?= 1
HOT      := ./storage/record ./storage ./netio/wire ./netio ./replication ./engine

.DEFAULT_GOAL := help
.PHONY: help build run test lint race fuzz bench bench-check bench-go bench-full bench-kafka limit e2e browser clean

help: ## list the commands
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/posthouse with both engines, io_uring and epoll (plain `go build ./...` makes epoll only)
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -ldflags="$(LDFLAGS) -s -w $(STAMP)" -o $(BIN) ./cmd/posthouse

run: build ## start a broker on 127.0.0.1:9092 with its data in ./data
	./$(BIN) serve

test: ## run every test, for the epoll-only build and for the io_uring build
	$(GO) test $(TESTFLAGS) ./...
	$(GO) test $(TESTFLAGS) $(URING) ./netio/... ./engine/... ./loadgen/... ./bench/... ./cmd/...

lint: ## check format, vet, staticcheck and the import order, for both builds
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GO) mod verify >/dev/null
	$(GO) vet ./...
	$(GO) vet -tags $(TAGS),e2e,golden,browser,invariants ./...
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags $(TAGS),e2e,golden,browser,invariants ./...
	$(GO) test -count=1 -run '^TestImportOrder$$' ./cmd/posthouse

race: ## run every test under the race detector with costly asserts on, for both builds
	$(GO) test -race -tags invariants $(TESTFLAGS) ./...
	$(GO) test -race -tags $(TAGS),invariants -ldflags=$(LDFLAGS) $(TESTFLAGS) ./netio/... ./engine/... ./loadgen/... ./bench/... ./cmd/...

fuzz: ## fuzz every target for FUZZTIME each (60s); PKG=./storage narrows it
	@set -e; for pkg in $$($(GO) list $(or $(PKG),./...)); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target for $(FUZZTIME)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
	  done; \
	done

bench-go: ## benchmark the hot pieces (BENCH, BENCHTIME, BENCHCOUNT); compare two runs with `go tool benchstat`
	$(GO) test $(URING) -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) $(HOT)

limit: ## build bin/limit, the C program that shows what the machine can do (where a C compiler is)
	@if command -v $(CC) >/dev/null; then mkdir -p bin && $(CC) -O2 -std=gnu11 -Wall -Wextra -pthread -o bin/limit bench/limit/*.c; \
	else echo "no C compiler ($(CC)): bin/limit is not built, and posthouse bench leaves the limit out"; fi

bench: build ## a short matrix beside Apache Kafka 4.4 and the limit, some ten minutes (as root; needs java and Maven)
	./$(BIN) bench

bench-full: build ## all workloads and contenders, some two hours
	./$(BIN) bench --matrix full

bench-check: build ## fail when a ratio to the limit is clearly worse than bench/ratios.json has it, some two minutes (root and a C compiler)
	./$(BIN) bench --check --out bin/bench-check

bench-kafka: build ## the first speed check: five lines beside Apache Kafka 4.4 (as root; needs java and Maven)
	$(GO) run ./bench/speedcheck -bin $(BIN)

e2e: build ## run outside clients and tools against the broker, on both engines (needs root for apt, java, Maven, python)
	POSTHOUSE_BIN=$(CURDIR)/$(BIN) $(GO) test -tags e2e -count=1 -timeout 60m -v $(TESTFLAGS) ./cmd/e2e/...

browser: ## look at the report in a headless Chromium (installs it by apt, as root)
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null)
	$(GO) test -tags browser -count=1 -run Browser $(TESTFLAGS) ./results

clean: ## remove what the build made (never ./data)
	rm -rf bin
