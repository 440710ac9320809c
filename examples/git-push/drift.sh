#!/bin/sh
# Reports flows that are active and not in git, for cron, which mails its output: drift.sh flows.git
# Exit codes are those of flowgate diff: 0 there are none, 2 there are some, 1 an error.
set -eu

repository=${1:?usage: drift.sh flows.git}
checkout=$(mktemp -d)
trap 'rm -rf "$checkout"' EXIT
git --git-dir "$repository" archive main flows | tar -x -C "$checkout"

code=0
flowgate diff "$checkout/flows" >"$checkout/diff" || code=$?
if [ "$code" -eq 2 ]; then
  echo 'The service runs other flows than those of main. The next push would change them so:'
  echo
  cat "$checkout/diff"
  echo
  echo 'See flowgate history for who deployed them and why. If those of main were undone since they failed, correct them and push.'
  echo 'Otherwise, to keep the active flows: flowgate export flows, and commit. To undo them: flowgate undo.'
fi
exit "$code"
