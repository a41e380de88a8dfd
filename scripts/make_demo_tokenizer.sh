#!/bin/sh
# Trains the tokenizer of configs/demo_model from the demo's own text; the same bytes each time.
#   scripts/make_demo_tokenizer.sh build/release/tributary [python]
set -eu
tributary=$1
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$tributary" data make-demo -o "$work/demo" --samples 36000 --held-out 1 >"$work/log"
# The names of the speakers are in every chat, but in no message.
yes 'user
assistant' | head -n 4000 >"$work/speakers.txt"
# 574: every word of the demo is one token.
"$python" "$(dirname "$0")/train_tokenizer.py" --vocab-size 574 --output configs/demo_model \
  "$work"/demo/*/train.jsonl "$work/speakers.txt"
