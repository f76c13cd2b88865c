"""The run store: every fact about every run, on disk, crash-safe.

`layout` owns all paths; `files` and `lock` own the system calls; `eventlog` and `reducer` hold the
truth and its fold; `runs` is the one way to read and to write a run.
"""
