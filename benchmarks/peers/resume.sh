#!/bin/bash
# What the next session needs to know, as a careful user would gather it with jq: one JSON object on stdout.
#
#   resume.sh PROJECT RUN_DIRECTORY
#
# The newest events are found as anybody would, by listing the log. Beside faber it lacks: the specification told apart
# into its sections, a resume point, a budget, and an answer when a file is damaged or git does not reply.

set -euo pipefail
project=$1 run=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

IFS=$'\t' read -r branch spec item < <(jq -r '[.artifacts.branch_name, .artifacts.spec_path, .work_id] | @tsv' "$run/state.json")
cat "$project/$spec" >"$work/spec"
git -C "$project" log --oneline -10 "$branch" >"$work/log"
git -C "$project" diff --stat "main...$branch" >"$work/diff"
git -C "$project" rev-list --left-right --count "main...$branch" >"$work/count"
git -C "$project" status --porcelain >"$work/status"

find "$run/events" -name '[0-9]*.json' -printf '%f\n' | sort -n | tail -20 | sed "s|^|$run/events/|" \
    | xargs jq -c . >"$work/events"
find "$run/session-summaries" -name '*.json' | sort | xargs -r jq -c . >"$work/sessions"

jq -n --slurpfile state "$run/state.json" --slurpfile metadata "$run/metadata.json" --slurpfile plan "$run/plan.json" \
    --slurpfile events "$work/events" --slurpfile sessions "$work/sessions" \
    --slurpfile issue "$project/.fractary/faber/work/$item.json" \
    --rawfile spec "$work/spec" --rawfile log "$work/log" --rawfile diff "$work/diff" \
    --rawfile count "$work/count" --rawfile status "$work/status" '
    ($state[0]) as $s
    | ([$plan[0].phases[] as $p | $p.steps[] | {phase: $p.id, step: .id}
        | select($s.phases[.phase].steps[.step].status | IN("completed", "skipped") | not)]) as $left
    | {
        run_id: $s.run_id, work_id: $s.work_id, status: $s.status, autonomy: $metadata[0].autonomy,
        current_phase: $s.current_phase, current_step: $s.current_step, artifacts: $s.artifacts,
        spec: {path: $s.artifacts.spec_path, content: $spec},
        issue: $issue[0],
        branch: {
            name: $s.artifacts.branch_name, commits: ($log | rtrimstr("\n") | split("\n")),
            files_changed: ($diff | rtrimstr("\n") | split("\n")), count: ($count | rtrimstr("\n")),
            dirty_files: ($status | rtrimstr("\n") | split("\n"))
        },
        events: $events,
        session_history: {total_sessions: ($sessions | length), latest: $sessions[-1], all_summaries: $sessions},
        resume_point: $left[0], remaining: $left
    }'
