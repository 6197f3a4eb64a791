# The front door: every target installs what it lacks (scripts/setup.sh), then calls CMake, ctest or a script.
# The work itself is described in CMakeLists.txt; `cmake --preset release` and ninja do as well.

PREFIX ?= /usr/local
export DESTDIR
export FUZZ_SECONDS ?= 60
export SOAK_MINUTES ?= 30

SETUP := scripts/setup.sh
REEL := build/reel
# Always given, so that a tree configured one way turns into the other without `make clean`.
CONFIGURE := -DREEL_NO_MPI=$(if $(REEL_NO_MPI),ON,OFF) -DREEL_NO_FFMPEG=$(if $(REEL_NO_FFMPEG),ON,OFF)
CTEST := ctest --output-on-failure --parallel 2
CPP = $(shell find src include examples tests -name '*.cpp' -o -name '*.h')
SHELL_SCRIPTS = $(wildcard scripts/*.sh bench/*.sh) bench/netcluster .ci/run
PYTHON_SCRIPTS = $(wildcard scripts/*.py bench/*.py tests/oracle/*.py)

.PHONY: build demo test test-quick bench peers validate soak fuzz format check lint install clean help configure
.DEFAULT_GOAL := build

build: configure  ## the program: build/reel
	cmake --build build --target reel

demo: build  ## trains on moving shapes and samples a clip; trains with dense, dynamic and random attention; two pages in build/demo
	$(REEL) doctor
	rm -rf build/demo
	$(REEL) train configs/shapes.toml --out build/demo
	$(REEL) sample build/demo --label "disc right" --seed 1 --out build/demo/clip.mp4 || \
	  $(REEL) sample build/demo --label "disc right" --seed 1 --out build/demo/clip.gif
	$(REEL) sample build/demo --label "disc right" --seed 1 --count 4 --out build/demo/clips.png
	$(REEL) bench quality --model configs/storyboard-demo.toml --seeds 1 --arms dense,dynamic,random \
	  --json build/demo/sparse.json --report build/demo/sparse.html
	@echo "look at build/demo/report.html: a model that has learnt to draw moving shapes"
	@echo "        build/demo/sparse.html: noised clips, restored with dense, dynamic and random attention"

test: ALSO := test
test: configure  ## all tests, then most of them again under the sanitizers
	cmake --build build
	$(CTEST) --test-dir build --label-exclude asan
	cmake --build build --target asan/all
	$(CTEST) --test-dir build/asan

test-quick: configure  ## builds, and runs the tests that take seconds: under a minute after a change of one source
	cmake --build build
	$(CTEST) --test-dir build --label-exclude 'asan|slow'

bench: build  ## speed on this machine, as a share of its measured peak; results in build/bench
	mkdir -p build/bench
	for bench in peak gemm attention select plan train; do \
	  $(REEL) bench $$bench --json build/bench/$$bench.json || exit 1; \
	done

peers: build  ## the same shapes beside PyTorch and OpenBLAS (downloads about 3 GB into build/venv)
	@$(SETUP) peers
	[ -x build/venv/bin/pip ] || python3 -m venv build/venv
	build/venv/bin/pip install --quiet torch diffusers numpy
	mkdir -p build/bench
	build/venv/bin/python bench/peers.py --json build/bench/peers.json

validate: build  ## predictions of the simulator beside published tables (REEL_DATA=../shared/data): docs/validation.md
	python3 scripts/validate.py --reel $(REEL)

soak: configure  ## runs that are killed 50 times, ranks and links too, then the randomised tests with ever new seeds for SOAK_MINUTES=30
	cmake --build build
	scripts/soak.sh

fuzz:  ## libFuzzer on the file readers, FUZZ_SECONDS=60 for each
	@$(SETUP) build fuzz
	scripts/fuzz.sh

format:  ## put every source file into the project's format
	@$(SETUP) lint
	@clang-format -i $(CPP)

check:  ## what takes seconds: format, rooms, scripts
	@$(SETUP) lint
	@clang-format --dry-run -Werror $(CPP)
	python3 scripts/check_rooms_test.py
	python3 scripts/check_rooms.py
	for script in $(PYTHON_SCRIPTS); do python3 -m py_compile $$script || exit 1; done
	shellcheck $(SHELL_SCRIPTS)

lint: check configure  ## the same, clang-tidy on what changed (all files: TIDY=all), every source and header compiled alone
	python3 scripts/tidy.py
	python3 scripts/alone.py

install: build  ## program, libraries, headers and CMake package into PREFIX=/usr/local (DESTDIR respected)
	cmake --install build --prefix $(PREFIX)

clean:  ## remove build/
	rm -rf build

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do \
	  printf '  make %-13s %s\n' "$$name" "$$text"; \
	done

configure:
	@$(SETUP) build $(ALSO)
	@mkdir -p build
	@cmake --preset release $(CONFIGURE) >build/configure.log || { cat build/configure.log; exit 1; }
