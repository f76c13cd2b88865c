"""Who may run each command of faber: the one table behind the hook's approvals and the skills' permissions.

A command that is in none of these sets does not exist; a test compares them with the command line.
"""

# Reads, and an agent's record of its own work: the PreToolUse hook approves a plain call.
FREE = frozenset(
    {
        ("config", "show"),
        ("context",),
        ("doctor",),
        ("event", "emit"),
        ("event", "list"),
        ("feedback", "history"),
        ("feedback", "request"),
        ("feedback", "show"),
        ("heal", "diagnose"),
        ("nebula", "attach"),
        ("nebula", "log"),
        ("nebula", "plan"),
        ("nebula", "status"),
        ("nebula", "validate"),
        ("next",),
        ("phase", "complete"),
        ("phase", "fail"),
        ("phase", "start"),
        ("protocol",),
        ("response", "check"),
        ("response", "log"),
        ("response", "merge"),
        ("response", "prompt"),
        ("response", "validate"),
        ("run", "begin"),
        ("run", "complete"),
        ("run", "fail"),
        ("run", "init"),
        ("run", "list"),
        ("run", "resume"),
        ("run", "show"),
        ("session", "list"),
        ("session", "save"),
        ("status",),
        ("step", "complete"),  # not where it would run a command of the plan: see tool_permission
        ("step", "fail"),
        ("step", "start"),
        ("watch",),
        ("workflow", "list"),
        ("workflow", "show"),
        ("workflow", "validate"),
        ("why",),
    }
)
# Spends money, reaches another machine, or changes what is not the agent's own work: the client asks the person,
# unless a skill that the person typed grants it, or they typed the command itself. (`pull-request`: unless the person
# typed the skill of the session, and the step in progress opens it: see completion.)
ASKS = frozenset(
    {
        ("demo",),
        ("feedback", "post"),
        ("heal", "plan"),
        ("nebula", "apply"),
        ("nebula", "clean"),
        ("nebula", "land"),
        ("notify", "deliver"),
        ("pull-request",),
        ("repair",),
        ("report",),
        ("run", "cancel"),
        ("run", "rerun"),
        ("setup",),
        ("sync", "export"),
        ("sync", "import"),
        ("sync", "pull"),
        ("sync", "push"),
        ("sync", "status"),
    }
)
# Speaks for a person: faber itself refuses it to an agent.
PEOPLE = frozenset(
    {
        ("feedback", "from-event"),
        ("feedback", "respond"),
        ("notify", "allow"),
        ("notify", "test"),
        ("phase", "skip"),
        ("run", "adopt"),
        ("run", "takeover"),
        ("step", "skip"),
    }
)
# These open any file that they are told: approved only for files below the current directory.
READS_FILES = frozenset(
    {
        ("heal", "diagnose"),
        ("nebula", "attach"),
        ("nebula", "log"),
        ("nebula", "plan"),
        ("nebula", "status"),
        ("nebula", "validate"),
        ("response",),
        ("workflow", "validate"),
    }
)

# Allowed in the prompt in which the person typed these words after the name of the skill: `/faber:nebula apply DIR`.
TYPED = frozenset({("nebula", "apply"), ("nebula", "land")})

# Only a person decides and grants autonomy; a workflow written by the agent could name commands that faber would run;
# another root is another project; a posted comment is public; a lost event may be an answer of a person.
REFUSED_OPTIONS = ("--decide", "--workflow", "--root", "--autonomy", "--post", "--accept-loss")

# Typing one of these means: work on the run, with all that its plan does. It holds for the rest of the session.
WORKING_SKILLS = ("run", "resume", "next")

# What each skill grants beyond that, for the prompt in which a person typed it: what its text inlines (exact, as the
# client runs that before any hook), and what typing it asks for (` *`: with any arguments). The skills that the model
# may call grant nothing.
SKILLS: dict[str, tuple[str, ...]] = {
    "checkpoint": (),
    "doctor": ("--exit-zero doctor --all --format text",),
    "feedback": ("--exit-zero feedback show latest --format text",),
    "heal": ("heal plan *",),
    "nebula": (),
    "next": ("--exit-zero protocol step-loop", "step complete *"),
    "resume": (),
    "run": ("--exit-zero protocol step-loop", "step complete *"),
    "status": (),
    "sync": ("--exit-zero sync status", "sync pull *", "sync push *"),
    "watch": (),
}
