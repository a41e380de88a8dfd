#!/usr/bin/env bash
# Renders the demo's data, trains its model from random weights, and says what to look at. May be
# repeated: it picks up where it stopped. demo.sh TRIBUTARY [key.path=value ...]
set -euo pipefail
tributary=$(realpath "${1:?usage: demo.sh TRIBUTARY [key.path=value ...]}")
shift
cd "$(dirname "$0")/.."
tributary=$(realpath --relative-base=. "$tributary")  # commands that it prints start from here
case $tributary in */*) ;; *) tributary=./$tributary ;; esac

if [ ! -f runs/demo-data/COMPLETE ]; then
  echo "demo: rendering pictures and questions (seconds)"
  rm -rf runs/demo-data
  "$tributary" data make-demo -o runs/demo-data
  touch runs/demo-data/COMPLETE
fi
if grep -qs '"stopped": "done"' runs/demo/summary.json; then
  echo "demo: runs/demo is complete; remove it to train again"
else
  echo "demo: training from random weights (about 5 minutes on 2 cores)"
  "$tributary" train configs/demo.yaml "$@" --resume auto
fi
echo "demo: the report is runs/demo/report.html"
cat <<END
demo: now your own pictures: write a JSONL file with one chat a line,
  {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}},
    {"type": "text", "text": "What is this?"}]}, {"role": "assistant", "content": "a cat"}]}
  name it in a copy of configs/own_data.yaml, then
  $tributary data inspect mine.yaml
  $tributary train mine.yaml
END
