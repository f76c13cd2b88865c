"""What a person sees of a run: one description of it for every command that shows one, and its forms as text.

Pure, and reading apart from it: `run_view` has the types, `view_fold` makes a `RunView` of a state (steps, phases,
money, questions, who works on it), `run_record` makes a `RunRecord` of the whole log (sessions, decisions, answers,
commits, unproven, skipped), `read_view` reads a run for both.
"""
