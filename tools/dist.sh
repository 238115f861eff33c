#!/usr/bin/env bash
# tools/dist.sh BUILD OUT: packs the runtime of a finished build, to be linked statically, into a tarball in OUT.
set -euo pipefail
build=$1 out=$2
version=$(sed -n 's/^project(tenon VERSION \([0-9.]*\).*/\1/p' "$(dirname "$0")/../CMakeLists.txt")
name=tenon-runtime-$version-linux-$(uname -m)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --component static --prefix "$folder/$name" > /dev/null

# The objects become one, with what tenon.h declares as its only names: what several of them define is there once, and no
# name meets one of the program's. That is a third of the size.
archive=$(echo "$folder/$name"/lib*/libtenon_runtime.a)
mkdir "$folder/objects"
(cd "$folder/objects" && ar x "$archive")
object=$folder/tenon_runtime.o
ld -r --gc-sections --gc-keep-exported --force-group-allocation -o "$object" "$folder"/objects/*.o
objcopy --wildcard --keep-global-symbol='tenon_*' --strip-unneeded "$object"
rm "$archive"
ar rcsD "$archive" "$object"

mkdir -p "$out"
tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c "$name" | xz -9e > "$out/$name.tar.xz"
echo "$out/$name.tar.xz: $(($(stat -c %s "$out/$name.tar.xz") / 1000)) KB"
