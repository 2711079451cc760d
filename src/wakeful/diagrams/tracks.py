"""Layer 5. How far is it from one rank to the next, and on which track does each link go sideways?

Between two ranks a link goes down, sideways on a track, and down again. Tracks are chosen so that links cross no more
than they must and never lie on each other.
"""

from wakeful.diagrams.ranks import Ranked, RankLink

TRACK = 11.0  # between two tracks
_LEAD = 12.0  # from a rank to the first track
_ARROW = 18.0  # from the last track to the next rank: room for a head
_PLAIN = 26.0  # between ranks with no track
_SHORT = 10.0  # to and from a rank of ports
_SAME = 0.75  # nearer than this is straight
_CLOSE = 7.0  # ends nearer than this would lie on each other
_ON_EACH_OTHER = 20  # as bad as so many crossings
_LINKS_FINE = 160  # more links in one gap get tracks by their place alone


def stack(ranked: Ranked) -> tuple[float, dict[RankLink, list[float]]]:
    """Give each item its `top`; the size of all ranks together, and the tracks of each link that goes sideways."""
    gaps: list[list[RankLink]] = [[] for _ in ranked.ranks]
    for chain in ranked.chains:
        for link in chain.links:
            gaps[link.upper.rank].append(link)
    top = 0.0
    found: dict[RankLink, list[float]] = {}
    for place, items in enumerate(ranked.ranks):
        thick = max((item.main for item in items), default=0.0)
        for item in items:
            item.top = top + (thick - item.main) / 2
            if item.kind in ("title", "port") and place == 0:
                item.top = top
        top += thick
        if place == len(ranked.ranks) - 1:
            break
        sideways = [link for link in gaps[place] if abs(_start(link) - _end(link)) > _SAME]
        tracks = _tracks(sideways)
        is_short = all(item.kind in ("port", "title") for item in (*items,)) or all(
            item.kind == "port" for item in ranked.ranks[place + 1]
        )
        lead = _SHORT if is_short and place == 0 else _LEAD
        count = 1 + max((max(some) for some in tracks.values()), default=-1)
        for link, some in tracks.items():
            found[link] = [top + lead + track * TRACK for track in some]
        plain = _ARROW + 4 if is_short else _PLAIN
        top += max(plain, lead + (count - 1) * TRACK + _ARROW) if count else plain
    return top, found


def _start(link: RankLink) -> float:
    return link.upper.at + link.upper_off


def _end(link: RankLink) -> float:
    return link.lower.at + link.lower_off


def _tracks(links: list[RankLink]) -> dict[RankLink, list[int]]:
    """One track for each link, 0 is the nearest to the front; two where one would lead onto another link."""
    if len(links) > _LINKS_FINE:
        rough = sorted(links, key=lambda link: (_start(link), _end(link)))
        return {link: [place] for place, link in enumerate(rough)}
    below: dict[RankLink, list[RankLink]] = {link: [] for link in links}  # what should be nearer to the front than it
    must: dict[RankLink, list[RankLink]] = {link: [] for link in links}  # and of that, what would lie on it otherwise
    stuck: list[RankLink] = []
    for place, one in enumerate(links):
        for two in links[place + 1 :]:
            if not _meet(one, two):
                continue
            first, second = _cost(one, two), _cost(two, one)
            if min(first, second) >= _ON_EACH_OTHER:
                stuck.append(one)  # neither order will do, so it takes both
                below[two].append(one)
                must[two].append(one)
            elif first != second:
                near, far = (one, two) if first < second else (two, one)
                below[far].append(near)
                if abs(first - second) >= _ON_EACH_OTHER // 2:
                    must[far].append(near)
    found: dict[RankLink, int] = {}
    rest = sorted(links, key=lambda link: (min(_start(link), _end(link)), _start(link)))
    while rest:
        # A circle of wishes can't be granted: then one goes without, if possible one that only crosses.
        ready = (one for wanted in (below, must) for one in rest if all(other in found for other in wanted[one]))
        link = next(ready, rest[0])
        rest.remove(link)
        track = 1 + max((found[other] for other in below[link] if other in found), default=-1)
        while any(found[other] == track and _meet(link, other) for other in found):
            track += 1
        if any(other not in found for other in must[link]):
            stuck.append(link)
        found[link] = track
    last = max(found.values(), default=0)
    tracks = {link: [track] for link, track in found.items()}
    for place, link in enumerate(dict.fromkeys(stuck)):
        # Half of the way before the others, half behind them.
        tracks[link].append(last + 1 + place)
    return tracks


def _meet(one: RankLink, two: RankLink) -> bool:
    low, high = sorted((_start(one), _end(one)))
    other_low, other_high = sorted((_start(two), _end(two)))
    return low - _CLOSE < other_high and other_low - _CLOSE < high


def _cost(near: RankLink, far: RankLink) -> int:
    """Crossings when `near` has the track closer to the front; lying on each other counts for many."""
    low, high = sorted((_start(near), _end(near)))
    cost = 1 if low < _start(far) < high else 0
    low, high = sorted((_start(far), _end(far)))
    cost += 1 if low < _end(near) < high else 0
    if abs(_end(near) - _start(far)) < _CLOSE:
        cost += _ON_EACH_OTHER
    return cost
