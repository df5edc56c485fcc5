# `make` lists the targets. Each prints what it runs; ARGS passes further arguments to those that run a program.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# `make -j ci` keeps the order of its steps: the test totals come last.
.NOTPARALLEL:

TOOL := go tool -modfile=tools.mod
ARGS ?=
# Packages of `make test` and `make lint`.
PKGS ?= ./...
# What `make breaking` compares the API with.
AGAINST ?= .git\#branch=main

GENERATED := api/weirv1
# The underscore keeps it out of `./...`.
SCRATCH := tmp/_generated
# Where demo-soak keeps the whole output of each run.
SOAK := tmp/soak
DRIVERS := modernc.org/sqlite|github.com/jackc/pgx|github.com/lib/pq|github.com/go-sql-driver/mysql

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{print "\n" substr($$0, 5)} /^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Use

.PHONY: run
run: ## three servers, three agents and the shop demo on this machine (needs only Go, git and make)
	go run ./cmd/weir dev --demo shop $(ARGS)

.PHONY: demo
demo: ## the shop demo to its end, five times in a row
	for i in 1 2 3 4 5; do echo "== demo run $$i of 5"; go run ./cmd/weir dev --demo shop --exit $(ARGS); done

.PHONY: demo-soak
demo-soak: ## the whole shop log ten times, its faults from random seeds: tables equal, each event effective once
	mkdir -p $(SOAK) && go build -o $(SOAK)/weir ./cmd/weir
	for i in 1 2 3 4 5 6 7 8 9 10; do \
		echo "== demo run $$i of 10"; \
		$(SOAK)/weir dev --demo shop --exit $(ARGS) >$(SOAK)/$$i.log 2>&1 || { cat $(SOAK)/$$i.log; exit 1; }; \
		sed -n '/^the replica/,/^[0-9]* permissions/p; /^faults that hit/,/smallest gap/p; /^right:/p' $(SOAK)/$$i.log; \
	done

.PHONY: build
build: ## bin/weir, static
	CGO_ENABLED=0 go build -trimpath -o bin/weir ./cmd/weir

##@ Check

.PHONY: test
test: ## all tests under the race detector (needs gcc); ends with the totals
	$(TOOL) gotestsum --format pkgname -- -race -shuffle=on -count=1 -timeout 9m $(ARGS) $(PKGS)

# Races in a simulated cluster, and how many of them must lose the leader between the two decisions.
RACES ?= 1000
LOST ?= 300

.PHONY: admit-race
admit-race: ## Add against Move for one dispatcher: exactly one is admitted (simulated cluster, then real processes)
	go test ./cmd/weir/internal/bubble -count=1 -v -timeout 30m -run '^TestField_B01_TwoRacingAdmissions$$' -bubble.races=$(RACES) -bubble.lost=$(LOST)
	go run ./jepsen/cmd/jepsen admit-race $(ARGS)

.PHONY: kills
kills: ## kill -9 of leaders, followers and owners under load: nothing acknowledged is lost
	go run ./jepsen/cmd/jepsen kills $(ARGS)

.PHONY: replay
replay: ## equal prefix, equal state hash: snapshot and restore at every index, then real servers through restarts
	WEIR_REPLAY=full go test ./fsm/scenario -count=1 -v -timeout 20m -run '^TestReplayFromEverySnapshot$$'
	go run ./jepsen/cmd/jepsen replay $(ARGS)

.PHONY: bench-apply
bench-apply: ## instructions, allocations, time and heap of the state machine at 1,000 to 1,000,000 dispatchers (needs valgrind; ARGS=-short: a share)
	command -v valgrind >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends valgrind; }
	cd bench && go vet ./... && go test -count=1 ./apply && go run ./apply $(ARGS)

# Which mutants: all, sample, or words of their ids or rules with commas between them. All of them write the table.
MUTANTS ?= all

.PHONY: mutants
mutants: ## break the state machine's rules one at a time: a test that names the rule must fail (MUTANTS=sample: five)
	go test ./fsm/mutants -count=1 -v -timeout 120m -args -mutants.run=$(MUTANTS) $(if $(filter all,$(MUTANTS)),-mutants.write) $(ARGS)

# Statements of package fsm that its tests reach, in percent.
COVERED ?= 95.0

.PHONY: coverage
coverage: ## statements of package fsm; every reason and every cell of the admission table reached by a script
	go test ./fsm -count=1 -v -run '^(TestEveryReasonIsReached|TestAdmissionTableIsVisited)$$'
	go test ./fsm ./fsm/scenario -count=1 -short -coverpkg=./fsm -coverprofile=coverage.fsm
	go tool cover -func=coverage.fsm | awk -v least=$(COVERED) ' \
		$$1 == "total:" { sub("%", "", $$3); total = $$3; next } \
		$$3 != "100.0%" { print } \
		END { printf "fsm: %s %% of statements, %s %% needed\n", total, least; exit total + 0 < least + 0 }'

.PHONY: explore
explore: ## every state of small worlds: the real state machine, and what nodes may do with its orders (25 million, about 20 minutes)
	go run ./fsm/explore/cmd/explore $(ARGS)

# The share of CI: 2 million states.
.PHONY: explore-short
explore-short:
	go test ./fsm/explore -count=1
	go run ./fsm/explore/cmd/explore -short $(ARGS)

.PHONY: lint
lint: ## golangci-lint, buf lint and format, and that importing dispatcher links no SQL driver
	$(TOOL) golangci-lint run --allow-parallel-runners $(PKGS)
	$(TOOL) buf lint
	$(TOOL) buf format --diff --exit-code
	deps=$$(go list -deps ./dispatcher ./dispatcher/control); \
		! grep -E '^($(DRIVERS))(/|$$)' <<<"$$deps" || { echo "importing dispatcher links a SQL driver"; exit 1; }

.PHONY: lint-proof
lint-proof: ## plant a violation of every import rule and see the linter find it
	.ci/depguard-proof

.PHONY: breaking
breaking: ## compare the protobuf API with AGAINST, by default branch main
	$(TOOL) buf breaking --against '$(AGAINST)'

.PHONY: tidy-check
tidy-check: ## go.mod and go.sum are tidy and the modules unaltered
	go mod tidy -diff
	go mod verify

.PHONY: check-generate
check-generate: ## the generated code is what the protobuf files generate; changes nothing
	rm -rf $(SCRATCH)
	$(TOOL) buf generate --output $(SCRATCH)
	diff -ru --exclude=doc.go $(GENERATED) $(SCRATCH)/$(GENERATED) || { echo "$(GENERATED) is not what api/proto generates: run make generate and commit"; exit 1; }

# The order matters: the cheap checks first, the tests last, so that the output ends with their totals.
# The tools are built on first use: about 3 minutes on 2 cores, see .ci/run.
.PHONY: ci
ci: tidy-check check-generate lint lint-proof ci-jepsen test ## everything a change must pass

# A short share of each long check; the full ones are run by hand.
.PHONY: ci-jepsen
ci-jepsen:
	$(MAKE) explore-short
	$(MAKE) mutants MUTANTS=sample
	$(MAKE) replay ARGS=--short
	$(MAKE) admit-race ARGS=--short RACES=200 LOST=60
	$(MAKE) kills ARGS=--short

##@ Change

.PHONY: fmt
fmt: ## gofumpt, goimports and buf format
	$(TOOL) golangci-lint fmt
	$(TOOL) buf format --write

# Into a scratch folder first, so that a failure leaves the old code and a removed file does not stay behind.
.PHONY: generate
generate: ## Go code of the protobuf files
	rm -rf $(SCRATCH)
	$(TOOL) buf generate --output $(SCRATCH)
	mkdir -p $(GENERATED)
	rm -f $(GENERATED)/*.pb.go
	cp $(SCRATCH)/$(GENERATED)/*.pb.go $(GENERATED)/

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin tmp jepsen/store coverage.*
