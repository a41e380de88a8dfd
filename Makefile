# Two commands do everything: `make demo` and `make test`. Both set the machine up first, and both
# may be repeated: what is done is not done again.

TRIB_ENV ?= $(CURDIR)/build/env
export TRIB_ENV
export PATH := $(PATH):$(TRIB_ENV)/bin
export CCACHE_SLOPPINESS := pch_defines,time_macros
PRESET ?= release
JOBS ?= $(shell nproc)
# The wheel that set-up installs where the system's CMake is too old; looked for when a recipe runs.
CMAKE = $$([ -x $(TRIB_ENV)/bin/cmake ] && echo $(TRIB_ENV)/bin/cmake || echo cmake)
BUILD := build/$(PRESET)
# A Python without sanitizers cannot load a module with them.
MODULE := $(if $(filter asan tsan,$(PRESET)),OFF,ON)

.PHONY: help setup build install demo test test-full test-setup configure configure-test format clean cuda

help:
	@echo "make demo    set up, build, train a small vision-language model, write its report"
	@echo "make test    set up, build, run every test"
	@echo "make test-full  the same with every cell of the comparisons of many ranks with one"
	@echo "make build   leaves build/release/tributary"
	@echo "make install links it as tributary in PREFIX/bin: /usr/local as root, else ~/.local"
	@echo "make cuda    the CUDA build (toolkit 13.0; needs no GPU to compile)"
	@echo "make format  clang-format over the tree"

setup:
	@setup/setup.sh runtime

test-setup:
	@setup/setup.sh test

configure: setup
	@CXX=$$(setup/setup.sh compiler) $(CMAKE) --preset $(PRESET) -DTRIB_PYTHON=$(TRIB_ENV)/bin/python -DTRIB_TESTS=OFF -DTRIB_PYTHON_MODULE=OFF >build/configure.log \
	  || { cat build/configure.log; exit 1; }

build: configure
	@echo "build: the first one takes 4 to 8 minutes on 2 cores, later ones seconds"
	@$(CMAKE) --build $(BUILD) -j$(JOBS) --target tributary

# A link: the program finds its engine library and libtorch where they were built.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
install: build
	@mkdir -p $(PREFIX)/bin && ln -sf $(CURDIR)/$(BUILD)/tributary $(PREFIX)/bin/tributary
	@mkdir -p $(PREFIX)/share/bash-completion/completions && $(BUILD)/tributary completion bash >$(PREFIX)/share/bash-completion/completions/tributary
	@echo "install: $(PREFIX)/bin/tributary -> $(CURDIR)/$(BUILD)/tributary, with completion for bash"
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "install: $(PREFIX)/bin is not on PATH: export PATH=$(PREFIX)/bin:\$$PATH";; esac

demo: build
	@scripts/demo.sh $(BUILD)/tributary

configure-test: test-setup
	@CXX=$$(setup/setup.sh compiler) $(CMAKE) --preset $(PRESET) -DTRIB_PYTHON=$(TRIB_ENV)/bin/python -DTRIB_TESTS=ON -DTRIB_PYTHON_MODULE=$(MODULE) >build/configure.log \
	  || { cat build/configure.log; exit 1; }

test: configure-test
	@echo "build: the first one takes 8 to 12 minutes on 2 cores, later ones seconds"
	@$(CMAKE) --build $(BUILD) -j$(JOBS)
	@scripts/run_tests.sh $(BUILD) $(JOBS)

test-full: export TRIB_TEST_FULL := 1
test-full: test

cuda: test-setup
	@CXX=$$(setup/setup.sh compiler) $(CMAKE) --preset cuda -DTRIB_PYTHON=$(TRIB_ENV)/bin/python
	@$(CMAKE) --build build/cuda -j$(JOBS) --target tributary

format:
	@find src tests bench -name '*.cpp' -o -name '*.h' -o -name '*.cu' | xargs clang-format -i

clean:
	rm -rf build/$(PRESET)
