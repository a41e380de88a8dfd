#!/bin/sh
# Every C++ file is as clang-format writes it; `make format` mends it.
cd "$(dirname "$0")/../.." || exit 1
find src tests bench -name '*.cpp' -o -name '*.h' -o -name '*.cu' | sort |
  xargs clang-format --dry-run --Werror
