"""What tests in several rooms share: projects, repositories, and agents that follow a script."""
