"""Schedules of `park`: cron text, and the hours of a week without GPU nodes."""
