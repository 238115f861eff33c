#!/usr/bin/env bash
# What `make demo` shows: a model as text, what the passes make of it, and its result.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 2>&1  # in order, wherever it goes

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi

# Prints a command, then runs it.
show() {
  printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
  "$@"
}

echo "A model is a text: typed values, one op a line, any batch size N."
show cat examples/mlp.tg

echo
echo "Passes rewrite it. Composite ops become primitive ones, equal values one, and the counts say what each pass did."
show tenon opt examples/mlp.tg --passes decompose,canonicalize,cse,dce --time -o build/mlp.opt.tg
show cat build/mlp.opt.tg

echo
echo "The reference backend evaluates it, here for a batch of 3 with seeded parameters: one row of probabilities each."
show tenon eval build/mlp.opt.tg --input x=examples/x.npy --random-params 1

echo
echo "Next: 'tenon ops' lists the ops, 'tenon ops softmax' tells about one, 'tenon --help' what else there is."
