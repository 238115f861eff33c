#!/usr/bin/env bash
# What `make demo` shows.
set -euo pipefail
cd "$(dirname "$0")/.."

build/bin/tenon --help
