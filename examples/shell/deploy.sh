#!/bin/sh
# Deploys a file of flows with curl, and waits until they have run for some seconds. If they fail, the service deploys the
# previous ones again.
#
#   deploy.sh flows.json [message]
#
# The file is an array of nodes, as Node-RED's editor exports it. Environment: FLOWGATE_SERVER is the URL of the service,
# FLOWGATE_TOKEN a token, WAIT the number of seconds.
# Exit codes: 0 the flows run; 1 they were not deployed; 4 they failed.
set -eu

file=${1:?usage: deploy.sh flows.json [message]}
message=${2:-"$file by $(id -un)"}
server=${FLOWGATE_SERVER:-http://127.0.0.1:8080}

response=$(mktemp -d)
trap 'rm -rf "$response"' EXIT

# The key makes it safe to repeat the request when the connection breaks: it deploys once.
set -- --silent --show-error --retry 3 --retry-connrefused \
  --dump-header "$response/headers" --output "$response/body" --write-out '%{http_code}' \
  --header 'Content-Type: application/json' \
  --header "Service-Deployment-Message: $message" \
  --header "Service-Deployment-Wait: ${WAIT:-10}" \
  --header 'Service-Deployment-On-Failure: undo' \
  --header "Idempotency-Key: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" \
  --data-binary "@$file"
if [ -n "${FLOWGATE_TOKEN:-}" ]; then
  # In a file, since other users can see the arguments of a process.
  (umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$FLOWGATE_TOKEN" >"$response/token")
  set -- --config "$response/token" "$@"
fi
status=$(curl "$@" "$server/flows")

header() {
  sed -n "s/^$1: *\(.*[^[:space:]]\)[[:space:]]*$/\1/Ip" "$response/headers"
}

if [ "$status" -ge 300 ]; then
  echo "not deployed, status $status: $(cat "$response/body")" >&2
  exit 1
fi
outcome=$(header Service-Deployment-Outcome)
if [ "$outcome" != running ]; then
  echo "the flows have failed: $outcome $(header Service-Deployment-Missing-Types)" >&2
  exit 4
fi
echo "$file runs"
