"""Which pages of the dashboard there are lists on: a page that comes is added here, and looked at by every suite."""

LISTS = [
    "/",
    "/objects",
    "/schedules",
    "/jobs",
    "/parked",
    "/calls",
    "/nodes",
    "/queues",
    "/webhooks",
    "/audit",
    "/tokens",
]
