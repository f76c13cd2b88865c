"""Limits for calls."""

import math


class Limiter:
    """A bucket of tokens."""

    def __init__(self, calls, seconds, clock):
        self.calls, self.rate, self.clock = calls, calls / seconds, clock
        self.tokens, self.at = float(calls), clock()

    def _fill(self):
        now = self.clock()
        self.tokens = min(self.calls, self.tokens + (now - self.at) * self.rate)
        self.at = now

    def ready(self):
        """Whether a token is there."""
        self._fill()
        return self.tokens >= 1 - 1e-9

    def allow(self):
        """Take a token if there is one."""
        if not self.ready():
            return False
        self.tokens -= 1
        return True

    def wait(self):
        """Seconds until a token is there."""
        return 0 if self.ready() else math.ceil((1 - self.tokens) / self.rate - 1e-9)


def allow_all(limiters):
    """Apply several at once."""
    limiters = list(limiters)
    if not all(each.ready() for each in limiters):
        return False
    return all([each.allow() for each in limiters])
