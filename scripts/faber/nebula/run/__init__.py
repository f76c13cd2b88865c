"""One run of a nebula in this process: scheduling phases, recording what happens, showing it."""
