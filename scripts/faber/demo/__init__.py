"""The demos: sample projects in which faber's commands run."""
