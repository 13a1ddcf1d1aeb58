#!/usr/bin/env bash
# Builds the command for speed: once to learn which code is hot, on the examples, and once more with what was learnt.
# Prints where it is. Needs `llvm-profdata` of rustc's own LLVM: `rustup component add llvm-tools`, or a
# distribution's package of that version.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/target/pgo
host=$(rustc -vV | sed -n 's/^host: //p')
version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
merge=
for tool in "$(rustc --print sysroot)"/lib/rustlib/*/bin/llvm-profdata "llvm-profdata-$version" llvm-profdata; do
    if "$tool" --version 2>/dev/null | grep -q "LLVM version $version"; then merge=$tool && break; fi
done
if [ -z "$merge" ]; then
    echo "no llvm-profdata of LLVM $version: rustup component add llvm-tools" >&2
    exit 2
fi

# A named target keeps the flags away from build scripts.
build() { CARGO_ENCODED_RUSTFLAGS=$1 cargo build --release --bin systole --target "$host" --target-dir "$2"; }

rm -rf "$target/raw"
build "-Cprofile-generate=$target/raw" "$target/learning"
learn() { "$target/learning/$host/release/systole" "$@" --report none >/dev/null; }
for program in mlp transformer_block resnet; do
    learn run "examples/$program.hlo"
    learn run "examples/$program.hlo" --timing-only --no-loop-skip
    learn run "examples/$program.hlo" --timing-only --no-memo
done
learn run examples/gpt_adam_pod.hlo --chip tpu-v5e --topology 16x16 --partitions 256 --timing-only
"$merge" merge -o "$target/hot.profdata" "$target/raw"
build "-Cprofile-use=$target/hot.profdata" "$target"
echo "$target/$host/release/systole"
