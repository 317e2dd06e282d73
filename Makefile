# Every target works from a clean clone. `make help` lists them.

GO ?= go
GOLANGCI_LINT_VERSION = v2.15.0
GOLANGCI_LINT ?= $(CURDIR)/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

# SQLite itself and its C library are C made into Go, with memory of their own that the race detector does not see: with the
# detector's and the pointer checks in those packages the tests take twice as long, and find nothing more. Linking takes half as
# long without a debugger's tables.
BUILD_FLAGS = -race '-gcflags=modernc.org/...=-d=checkptr=0' $(foreach c,libc memory sqlite/lib,'-gcflags=modernc.org/$(c)=-race=false -d=checkptr=0') -ldflags=-w
# Three packages at a time on two cores, and eight tests of each: most of their time is waiting for servers, sessions and leases.
# `make lint` vets.
TEST_FLAGS = $(BUILD_FLAGS) -vet=off -p 3 -parallel 8
# What decides has no goroutine (internal/archtest), and the simulator and the model play in one: the race detector has nothing
# to find there, and makes their tests take six times as long. `make test-long` has them with it. They have
# little in memory, and make much: with GOGC=400 they take a quarter less.
PURE = adaptive|flow|locks|model|offsets|sim|slots|visibility
# The linter reads what the compiler has made of all that is imported: what the tests need, so that it is made once.
LINT = GOFLAGS="$$GOFLAGS $(BUILD_FLAGS)" $(GOLANGCI_LINT) run ./...

# The race detector has each process sleep for a second before it ends.
export GORACE ?= atexit_sleep_ms=50

.DEFAULT_GOAL := help
# What is a module of its own, so that those who import the library do not get what it needs.
MODULES = integration bench integration/browser integration/dashboard idempotency/redisfilter idempotency/spills3 integration/routers integration/kubernetes sqs/lambdasqs formats/cloudevents formats/registry formats/s3payload
# Where long runs write what they came to.
RECORD = ACKLEDGER_REPORT=$(CURDIR)/docs/reliability.md

.PHONY: help demo demo-replay test test-long with-servers unit lint bench mutants mutants-all fuzz vuln soak chaos model sim api

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run the order-payment pipeline: needs Go alone, takes under a minute; WEB=1: with the page
	$(GO) run ./examples/demo

demo-replay: ## 500 dead letters on both brokers, brought back each once by the command: needs Go alone
	$(GO) build -o bin/ackledger ./cmd/ackledger
	$(GO) run ./examples/replay -command bin/ackledger

test: bin/withservices ## all tests that must pass, on real servers (Java, Maven and npm fetch and run them)
	GOGC=400 ACKLEDGER_SIM=10000 $(GO) test -vet=off -ldflags=-w -timeout 10m $$($(GO) list ./internal/... | grep -E '/($(PURE))$$')
	bin/withservices -- $(MAKE) --no-print-directory with-servers MODULE_FLAGS=-short TEST_FLAGS="$(TEST_FLAGS) -timeout 20m" WITHOUT='/internal/($(PURE))$$$$'

test-long: bin/withservices ## the same with the long runs: crashes, outages and load for hours
	ACKLEDGER_LONG=1 $(RECORD) bin/withservices -- $(MAKE) --no-print-directory with-servers TEST_FLAGS="$(TEST_FLAGS) -timeout 180m"

WITHOUT = ^$$
# The library and integration in one workspace: their tests wait side by side. No other module adds to the versions that are tested.
with-servers: export GOWORK = $(CURDIR)/integration/tests.work
with-servers:
	$(GO) test $(TEST_FLAGS) $$($(GO) list ./... ./integration/... | sort | grep -vE '$(WITHOUT)')
	$(foreach m,$(filter-out integration,$(MODULES)),cd $(CURDIR)/$(m) && GOWORK=off $(GO) test $(TEST_FLAGS) $(MODULE_FLAGS) ./... &&) true

unit: ## the tests that need no server; the others are left out or skip and say so
	ACKLEDGER_UNIT=1 $(GO) test $(TEST_FLAGS) $$($(GO) list ./... | grep -v /internal/services)

lint: $(filter $(CURDIR)/%,$(GOLANGCI_LINT)) ## gofmt, and golangci-lint, which vets as well
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(LINT)
	$(foreach m,$(MODULES),cd $(CURDIR)/$(m) && $(LINT) &&) true

$(CURDIR)/bin/golangci-lint-%:
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	mv bin/golangci-lint $@

api: ## write docs/api.txt, the exported declarations: its test fails while it differs from the sources
	$(GO) run ./internal/apilist

fuzz: ## fuzz each target, each for FUZZTIME (default 1m); writes docs/reliability.md: make fuzz FUZZTIME=30m ARGS="-at-once 4"
	$(RECORD) $(GO) run ./internal/fuzzing -time $(or $(FUZZTIME),1m) $(ARGS)

GOVULNCHECK ?= $(GO) run golang.org/x/vuln/cmd/govulncheck@latest

vuln: ## look for known vulnerabilities in what we import: needs govulncheck and its database
	@$(GOVULNCHECK) -version 2>/dev/null | grep -q "^DB updated" || { echo "vuln: NOT CHECKED: govulncheck, or its database, cannot be reached from here"; exit 1; }
	$(GOVULNCHECK) ./...
	$(foreach m,$(MODULES),cd $(CURDIR)/$(m) && $(GOVULNCHECK) ./... &&) true

chaos: bin/withservices ## faults drawn from SEED (default 1) on real servers for DURATION (default 30m); writes docs/reliability.md
	ACKLEDGER_CHAOS=$(or $(DURATION),30m) ACKLEDGER_CHAOS_SEED=$(or $(SEED),1) $(RECORD) \
		bin/withservices -- $(GO) test -C integration -count=1 -v -parallel 6 -timeout 24h ./chaos

soak: ## workers at full load for DURATION (default 30m); fails unless their memory stays flat; writes docs/soak.svg
	cd bench && $(GO) build -o ../bin/soak ./soak && ../bin/soak -out ../docs -duration $(or $(DURATION),30m)

model: ## check the rules in small worlds and by walks for DURATION (default 1h); SEED repeats a run's walks; writes docs/reliability.md
	$(RECORD) ACKLEDGER_MODEL=$(or $(DURATION),1h) ACKLEDGER_SEED=$(SEED) $(GO) test -count=1 -v -run '^TestModel$$' -timeout 0 ./internal/model

sim: ## play SEEDS worlds (default 10000) in the simulator: every promise is kept in each, and the same seed makes the same steps
	ACKLEDGER_SIM=$(or $(SEEDS),10000) $(if $(SEEDS),$(RECORD)) $(GO) test -count=1 -v -timeout 0 ./internal/sim

bench: ## measure everything beside its peers and write bench/results.md: up to an hour, with QUICK=1 under 5 minutes
	cd bench && $(GO) build -o ../bin/bench . && ../bin/bench -out . $(if $(QUICK),-quick)

mutants: bin/withservices ## take the guard of each pitfall out of the code: its test must fail (docs/pitfalls.md); half an hour, ARGS="-only 12,15"
	bin/withservices -- $(GO) run ./internal/mutants $(ARGS)

mutants-all: bin/withservices ## measure the tests with changes that nobody chose, SEED and SAMPLE of each package; writes docs/reliability.md; hours
	$(RECORD) bin/withservices -- $(GO) run ./internal/mutation -sample $(or $(SAMPLE),200) -seed $(or $(SEED),1) $(ARGS)

# Built, not `go run`: its exit code and its signals pass through. The command is always asked to be built; Go knows
# whether there is anything to do.
.PHONY: bin/withservices
bin/withservices:
	$(GO) build -o $@ ./internal/services/cmd/withservices
