#!/bin/sh
# Runs a fuzzer from its seeds: run.sh BINARY NAME SECONDS. What it finds is left in build/fuzz/NAME.
set -eu
binary=$1 name=$2 seconds=$3
work=build/fuzz/$name
mkdir -p "$work/corpus"
set -- "tests/fuzz/seeds/$name"
[ "$name" != artifact ] || set -- tests/golden/1.0 tests/golden/1.1 tests/golden/1.2
exec "$binary" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
  -artifact_prefix="$work/" "$work/corpus" "$@"
