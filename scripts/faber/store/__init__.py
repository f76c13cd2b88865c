"""The run store: every fact about every run, on disk, crash-safe.

`layout` owns all paths; `files` and `lock` own the system calls; `log` holds the events, which are the truth; `load` is
the one way to read a run, `commit` the one way to write it.
"""
