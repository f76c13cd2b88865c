#!/bin/bash
# One step transition, as a careful user would script it with jq: the next event, then the state, each in place at once.
#
#   step.sh RUN_DIRECTORY start|complete PHASE STEP
#
# The last event's id is taken from state.json, so nothing grows with the log. DURABLE=1 also waits for the disk before
# each rename and after it; without it a power cut can lose what was answered, or leave an empty file.
# Beside faber it lacks: the plan's order, a reader that repairs what a killed writer left, credentials taken out.

set -euo pipefail
run=$1 action=$2 phase=$3 step=$4
exec 9>>"$run/lock"
flock --wait 10 9

put() {
    if [ "${DURABLE:-}" = 1 ]; then sync "$1"; fi
    mv "$1" "$2"
    if [ "${DURABLE:-}" = 1 ]; then sync "${2%/*}"; fi
}

id=$(($(jq .last_event_id "$run/state.json") + 1))
now=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
type=step_$action
printf -v name '%06d-%s.json' "$id" "$type"

jq -nc --argjson id "$id" --arg type "$type" --arg now "$now" --arg phase "$phase" --arg step "$step" \
    '{schema_version: 1, event_id: $id, type: $type, timestamp: $now, phase: $phase, step: $step}' \
    >"$run/events/.$name.$$"
put "$run/events/.$name.$$" "$run/events/$name"

jq -c --argjson id "$id" --arg action "$action" --arg now "$now" --arg phase "$phase" --arg step "$step" --arg file "$name" '
    if .phases[$phase].steps[$step] == null then error("no such step") else . end
    | .phases[$phase].steps[$step] |= (
        if $action == "start"
        then .status = "in_progress" | .attempts += 1 | .started_at = $now | .started_event = $id
        else .status = "completed" | .completed_at = $now | .ended_event = $id end)
    | .phases[$phase].status = "in_progress"
    | .status = "in_progress"
    | .current_phase = $phase
    | .current_step = (if $action == "start" then $step else null end)
    | .recent_events = (.recent_events + [{event_id: $id, file: $file}])[-20:]
    | .last_event_id = $id
    | .updated_at = $now' "$run/state.json" >"$run/.state.$$"
put "$run/.state.$$" "$run/state.json"
printf '{"event_id":%d,"type":"%s","phase":"%s","step":"%s"}\n' "$id" "$type" "$phase" "$step"
