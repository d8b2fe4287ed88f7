# Every command of the project lives here; CI calls these targets. `make help` lists them.
SHELL := /bin/bash
GO    ?= go
# Packages compiled in one folder are found in the build cache from every other folder, too. The tag has Pebble take zstd, which its tables here
# do not use, from a package that is there anyway: the one written in C takes a tenth of a first build.
TAGS := -tags=pebblegozstd
export GOFLAGS := $(filter-out -trimpath $(TAGS),$(GOFLAGS)) -trimpath $(TAGS)
BIN   := bin
TOOLS := $(GO) tool -modfile=.ci/tools/go.mod
# The official npm client that the gateway is tested with.
NPM   := cmd/parley/testdata/openai
# The official clients of A2A.
A2A   := cmd/parley/testdata/a2a
# The reference server of MCP.
MCP   := cmd/parley/testdata/mcp
# The accessibility checker of the page's tests, and the packages that the page's vendored code is copied from.
PAGE  := cmd/parley/testdata/page
# The linter of API documents, and what makes types of them.
APIDOCS := cmd/parley/testdata/apidocs
# Where `make run` keeps its data.
DATA  ?= parley-data

.DEFAULT_GOAL := help
.PHONY: help build run cluster chaos test check race fuzz bench bench-smoke bench-gate bench-client nightly generate routes fmt lint vet tidy deadcode browser network openai a2a mcp apidocs page-tools page-vendor docs-vendor page-types page-loads picture clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

build: ## build bin/parley
	@mkdir -p $(BIN)
	@[ -x $(BIN)/parley ] || echo "The first build downloads 130 MB of Go modules and compiles about 1,000 packages: some three minutes on two cores. Each is named when it is its turn."
	$(GO) build -v -ldflags '-s -w' -o $(BIN)/parley ./cmd/parley

run: build ## build, start one node on its embedded defaults, say where to click and what to curl
	@./$(BIN)/parley serve --data-dir $(DATA)

cluster: build ## start three nodes on this machine and say how to play with them
	@./cmd/parley/cluster.sh

test: browser network openai a2a mcp apidocs page-tools page-types ## everything that must pass: all tests of all packages, with real processes and a real browser
	$(GO) run ./.ci/gate ./... ./.ci/gate

check: fmt-check vet lint ## format, vet, lint, and the tests that need no process or browser
	$(GO) test -short -p 4 -timeout 10m ./...

# The actor engine sets the global logger of gRPC whenever a node starts, unguarded: several nodes in one test process
# would be reported for nothing else.
RACE = -race '-gcflags=google.golang.org/grpc/grpclog/...=-race=false -l'
race: browser network openai a2a mcp apidocs page-tools ## all tests under the race detector
	$(GO) test $(RACE) -timeout 40m ./...

SEED ?= 1
DURATION ?= 10m
KILLS ?= 1000
STEPS ?= 1000000
chaos: build network ## the long fault tests, each for DURATION (10m), KILLS (1000) or STEPS (1000000) from SEED (1); `make chaos SEED=7 DURATION=1h`
	PARLEY_CHAOS_SEED=$(SEED) PARLEY_CHAOS_DURATION=$(DURATION) PARLEY_PLACEMENT_CHAOS_SEED=$(SEED) PARLEY_PLACEMENT_CHAOS_DURATION=$(DURATION) \
	  $(GO) test -p 1 -count 1 -timeout 24h -v -run 'Chaos|Linear' \
	  ./persistence/replica ./persistence ./cluster/placement ./cmd/parley
	PARLEY_WALK_STEPS=$(STEPS) $(GO) test -count 1 -timeout 24h -v -run TestWalk ./actors/conversation
	PARLEY_TEST_SEED=$(SEED) PARLEY_TOOL_KILLS=$(KILLS) $(GO) test -count 1 -timeout 24h -v -run TestToolCrashes ./cmd/parley
	./bin/parley bench chaos -network -seed $(SEED) -duration $(DURATION)

FUZZTIME ?= 20s
fuzz: ## every fuzz target for FUZZTIME (20s)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; done; done

bench: build ## the numbers of bench/RESULTS.md, with their yardsticks (about 10 minutes; leave the machine alone)
	./bench/results.sh

bench-client: build ## the scenarios of the Client API for some seconds each: they keep running
	QUICK=1 ONLY=client ./bench/results.sh

nightly: bench-gate bench-smoke race fuzz chaos ## what takes longer than a gate may: benchmarks, race detector, fuzz targets, long faults, upgrades

# The commit that the processor time of this source is held against.
BASE ?= 597cd7f
bench-gate: ## fail when a turn, a streamed answer or a new conversation costs 7 % more processor time than at the commit BASE
	PAIRS=5 ./bench/gate.sh $(BASE)

bench-smoke: build ## every Go benchmark once, and the scenarios of people, money, files, webhooks and the Client API for some seconds each: they keep running
	$(GO) test -short -run '^$$' -bench . -benchtime 1x -timeout 10m ./...
	QUICK=1 ONLY=people ./bench/results.sh
	QUICK=1 ONLY=client ./bench/results.sh
	QUICK=1 ONLY=webhooks ./bench/results.sh

generate: ## regenerate protobuf code and golden route and API documents
	@command -v protoc >/dev/null || (apt-get update -qq && apt-get install -y -qq protobuf-compiler)
	@mkdir -p $(BIN)
	$(GO) build -modfile=.ci/tools/go.mod -o $(BIN)/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
	cd proto && protoc --plugin=protoc-gen-go=../$(BIN)/protoc-gen-go --go_out=.. --go_opt=module=parley -I. */*.proto
	$(GO) test ./httpedge/convapi ./cmd/parley/node -run Golden -rewrite

routes: build ## print every route with its handler, access and errors
	@./$(BIN)/parley routes

fmt: ## format the code
	$(TOOLS) golangci-lint fmt

fmt-check:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt: $$out"; exit 1; fi

lint: ## golangci-lint with the import boundaries of .golangci.yml
	$(TOOLS) golangci-lint run --allow-parallel-runners ./... ./.ci/gate

vet: ## go vet
	$(GO) vet ./... ./.ci/gate

tidy: ## fail when go.mod is not tidy
	$(GO) mod tidy -diff

deadcode: ## report unreachable functions
	$(TOOLS) deadcode -test ./...

network: ## install the tools that cut real networks and slow disks, where they are missing
	@command -v ip >/dev/null && command -v strace >/dev/null || (apt-get update -qq && apt-get install -y -qq iproute2 strace) >/dev/null

browser: ## install headless Chromium for the page tests, where it is missing
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) >/dev/null

openai: ## install Node.js and the npm clients of the OpenAI API for the tests with them, where they are missing
	@command -v node >/dev/null && command -v npm >/dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm) >/dev/null
	@cd $(NPM) && (cmp -s package-lock.json node_modules/.installed || (npm ci --silent && cp package-lock.json node_modules/.installed))

a2a: ## install the npm clients of A2A for the tests with them, where they are missing
	@command -v npm >/dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm) >/dev/null
	@cd $(A2A) && (cmp -s package-lock.json node_modules/.installed || (npm ci --silent && cp package-lock.json node_modules/.installed))

mcp: ## install the reference server of MCP for the tests with it, where it is missing
	@command -v npm >/dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm) >/dev/null
	@cd $(MCP) && (cmp -s package-lock.json node_modules/.installed || (npm ci --silent && cp package-lock.json node_modules/.installed))

apidocs: ## install what checks the API documents, where it is missing
	@command -v npm >/dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm) >/dev/null
	@cd $(APIDOCS) && (cmp -s package-lock.json node_modules/.installed || (npm ci --silent && cp package-lock.json node_modules/.installed))

page-tools: ## install the accessibility checker for the page tests, where it is missing
	@command -v npm >/dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm) >/dev/null
	@cd $(PAGE) && (cmp -s package-lock.json node_modules/.installed || (npm ci --silent && cp package-lock.json node_modules/.installed))

page-vendor: page-tools ## copy the page's vendored code from the packages that are pinned for it
	sed '/^\/\/# sourceMappingURL/d' $(PAGE)/node_modules/markdown-it/dist/browser/markdown-it.esm.min.mjs >httpedge/web/page/vendor/markdown-it.mjs
	sed '/^\/\/# sourceMappingURL/d' $(PAGE)/node_modules/preact/dist/preact.mjs >httpedge/web/page/vendor/preact.mjs
	sed -e '/^\/\/# sourceMappingURL/d' -e 's|from"preact"|from"./preact.mjs"|' $(PAGE)/node_modules/preact/hooks/dist/hooks.mjs >httpedge/web/page/vendor/preact-hooks.mjs
	cp $(PAGE)/node_modules/htm/dist/htm.mjs httpedge/web/page/vendor/htm.mjs
	(cat $(PAGE)/node_modules/temml/dist/temml.min.js && printf '\nexport default temml;\n') >httpedge/web/page/vendor/temml.mjs
	cd $(PAGE)/node_modules/@speed-highlight/core/dist && cp tokenize.js $(CURDIR)/httpedge/web/page/vendor/highlight/ && \
		cd languages && cp $(notdir $(wildcard httpedge/web/page/vendor/highlight/languages/*.js)) $(CURDIR)/httpedge/web/page/vendor/highlight/languages/

docs-vendor: ## copy what the pages of the API documents load from the package VERSION
	@dir=$$(mktemp -d) && npm pack --silent --pack-destination $$dir swagger-ui-dist@$(VERSION) >/dev/null && tar xzf $$dir/*.tgz -C $$dir && \
		for file in httpedge/apidocs/swagger/*.gz; do gzip -9nc $$dir/package/$$(basename $$file .gz) >$$file || exit 1; done; rm -r $$dir

page-types: page-tools ## check the types of the console's modules
	cd $(PAGE) && node_modules/.bin/tsc --project .

page-loads: browser ## load the page 1,000 times in a browser and 20,000 times by a client; the first load above 5 s is a failure, with evidence
	PARLEY_PAGE_LOADS=$${PARLEY_PAGE_LOADS:-1000} $(GO) run ./.ci/gate -tier 4 -again 0 -run '^TestPageLoads$$' ./cmd/parley

picture: browser ## take the picture of README.md anew
	PARLEY_PICTURE=$(CURDIR)/docs/chat.webp $(GO) run ./.ci/gate -run '^TestReadmePicture$$' ./cmd/parley

clean: ## remove what was built
	rm -rf $(BIN)
