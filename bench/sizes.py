"""How much work is a run? One place for every count, so that forms differ in nothing else."""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Counts of one form of the benchmark."""

    schedule_callers: tuple[int, ...]
    schedule_count: int  # with 64 callers or more; one caller does a tenth
    bulk_count: int
    fire_count: int
    lateness_pending: int
    lateness_rate: int
    lateness_s: int
    cron_count: int  # schedules due at one instant
    cron_rate: int  # schedules due every second
    cron_s: int
    next_run_count: int
    many_counts: tuple[int, ...]  # schedules in one object
    many_total: int  # schedules over a hundredth as many objects
    call_count: int
    call_objects: int
    wake_count: int
    scale_pending: tuple[int, ...]
    awake_objects: int
    recovery_count: int
    flow_count: int  # workflows of ten steps
    flow_recovery_count: int
    job_rate: int  # jobs a second, for their lateness
    job_s: int
    fair_rounds: int
    fair_s: int  # of each half of a round
    cluster_nodes: tuple[int, ...]
    cluster_jobs: int  # due at one instant
    cluster_calls: int
    million_count: int
    peer_count: int  # jobs scheduled one by one
    peer_bulk_count: int
    peer_fire_count: int
    peer_flow_count: int

    def but(self, settings: list[str]) -> "Sizes":
        """With `name=number` or `name=1,64` put in place of this form's own."""
        known = {field.name for field in fields(self)}
        changes: dict[str, int | tuple[int, ...]] = {}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name not in known:
                raise SystemExit(f"{name!r} is not a size; one of: {', '.join(sorted(known))}")
            numbers = tuple(int(number) for number in text.split(","))
            changes[name] = numbers if isinstance(getattr(self, name), tuple) else numbers[0]
        return replace(self, **changes)


SHORT = Sizes(
    schedule_callers=(1, 64, 1_000),
    schedule_count=16_000,
    bulk_count=50_000,
    fire_count=10_000,
    lateness_pending=200_000,
    lateness_rate=600,
    lateness_s=8,
    cron_count=10_000,
    cron_rate=1_000,
    cron_s=8,
    next_run_count=500,
    many_counts=(10, 1_000, 10_000),
    many_total=100_000,
    call_count=20_000,
    call_objects=10_000,
    wake_count=5_000,
    scale_pending=(10_000, 100_000),
    awake_objects=10_000,
    recovery_count=10_000,
    flow_count=2_000,
    flow_recovery_count=1_000,
    job_rate=2_000,
    job_s=6,
    fair_rounds=3,
    fair_s=5,
    cluster_nodes=(1, 2, 4),
    cluster_jobs=10_000,
    cluster_calls=20_000,
    million_count=50_000,
    peer_count=1_000,
    peer_bulk_count=5_000,
    peer_fire_count=2_000,
    peer_flow_count=200,
)

FULL = replace(
    SHORT,
    schedule_count=64_000,
    bulk_count=200_000,
    lateness_pending=1_000_000,
    lateness_s=20,
    cron_s=20,
    many_total=1_000_000,
    call_count=100_000,
    wake_count=10_000,
    scale_pending=(10_000, 100_000, 1_000_000),
    job_s=20,
    fair_rounds=7,
    cluster_jobs=30_000,
    cluster_calls=100_000,
    million_count=1_000_000,
    peer_count=3_000,
    peer_bulk_count=20_000,
    peer_fire_count=10_000,
    peer_flow_count=1_000,
)

TINY = Sizes(
    schedule_callers=(1, 8),
    schedule_count=40,
    bulk_count=50,
    fire_count=30,
    lateness_pending=50,
    lateness_rate=100,
    lateness_s=1,
    cron_count=40,
    cron_rate=20,
    cron_s=1,
    next_run_count=5,
    many_counts=(10,),
    many_total=200,
    call_count=60,
    call_objects=10,
    wake_count=20,
    scale_pending=(100,),
    awake_objects=50,
    recovery_count=20,
    flow_count=20,
    flow_recovery_count=20,
    job_rate=200,
    job_s=1,
    fair_rounds=1,
    fair_s=1,
    cluster_nodes=(1, 2),
    cluster_jobs=60,
    cluster_calls=200,
    million_count=200,
    peer_count=20,
    peer_bulk_count=20,
    peer_fire_count=20,
    peer_flow_count=20,
)

FORMS = {"tiny": TINY, "short": SHORT, "full": FULL}


def short_number(count: int) -> str:
    """10000 as 10k, for the names of measures."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size and count % size == 0:
            return f"{count // size}{letter}"
    return str(count)
