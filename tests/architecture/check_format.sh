#!/bin/sh
# Every C++ file is as clang-format 14 writes it; `make format` mends it. Other versions write some
# lines in another way, so a machine that has none but another skips this (exit code 77).
cd "$(dirname "$0")/../.." || exit 1
for format in clang-format-14 clang-format; do
  version=$($format --version 2>/dev/null | sed 's/.*version \([0-9]*\).*/\1/') || continue
  [ "$version" = 14 ] && break
done
if [ -z "$version" ]; then
  echo "no clang-format on this machine; install the package clang-format-14 or clang-format"
  exit 1
fi
if [ "$version" != 14 ]; then
  echo "SKIPPED: clang-format is version $version, the tree is formatted by 14;" \
    "install the package clang-format-14 to check it here"
  exit 77
fi
find src tests bench -name '*.cpp' -o -name '*.h' -o -name '*.cu' | sort |
  xargs "$format" --dry-run --Werror
