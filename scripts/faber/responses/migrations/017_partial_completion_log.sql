-- One row for each response that was cut and recovered, or not (seed 003). Applying this file again changes nothing.
CREATE TABLE IF NOT EXISTS partial_completion_log (
    id INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    turn_number INTEGER NOT NULL,
    truncation_index INTEGER,
    initial_chunk_length INTEGER,
    resume_attempts INTEGER DEFAULT 0,
    final_status TEXT NOT NULL CHECK (final_status IN ('RESOLVED', 'EXHAUSTED')),
    timestamp TEXT NOT NULL DEFAULT (datetime('now'))
);
CREATE INDEX IF NOT EXISTS partial_completion_log_task ON partial_completion_log (task_id, id);
