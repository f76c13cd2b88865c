"""Questions to people: opening a request, accepting an answer, and who may give one."""
