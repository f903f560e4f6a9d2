"""Forest operations against plain walks over a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccanalytics import graph
from ccanalytics.graph import NONE, Rows


def _array(parents: list[int]) -> Rows:
    return np.array(parents, dtype=np.int64)


@st.composite
def any_links(draw: st.DrawFn) -> list[int]:
    """Links of any kind, circles included."""
    n = draw(st.integers(0, 40))
    return [draw(st.integers(-2, n - 1)) for _ in range(n)]


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """Forests whose rows stand in any order."""
    n = draw(st.integers(1, 40))
    straight = [draw(st.integers(max(-1, i - 3), i - 1)) for i in range(n)]
    place = draw(st.permutations(range(n)))
    out = [NONE] * n
    for i, p in enumerate(straight):
        out[place[i]] = place[p] if p >= 0 else NONE
    return out


def _way(parents: list[int], x: int) -> list[int]:
    seen = []
    while x >= 0 and x not in seen:
        seen.append(x)
        x = parents[x]
    return [*seen, x]


def _descendants(parents: list[int], x: int) -> set[int]:
    return {y for y in range(len(parents)) if x in _way(parents, y)[:-1]}


@given(any_links())
def test_trace_equals_a_walk(parents: list[int]) -> None:
    t = graph.trace(_array(parents))
    for x in range(len(parents)):
        *way, end = _way(parents, x)
        if end < 0:
            assert (t.root[x], t.depth[x], t.cycle[x]) == (way[-1], len(way) - 1, NONE)
            assert not t.leads_to_cycle[x]
        else:
            ring = way[way.index(end) :]
            assert t.root[x] == min(ring)
            assert t.depth[x] == way.index(end)
            assert t.cycle[x] == (min(ring) if x in ring else NONE)
            assert t.leads_to_cycle[x]


@given(any_links())
def test_without_cycles_cuts_one_link_of_each(parents: list[int]) -> None:
    t = graph.trace(_array(parents))
    cut = graph.without_cycles(_array(parents))
    heads = sorted(set(t.cycle[t.cycle >= 0].tolist()))
    assert [i for i in range(len(parents)) if parents[i] != cut[i]] == heads
    assert not (graph.trace(cut).cycle >= 0).any()


@given(any_links(), st.data())
def test_nearest_equals_a_walk(parents: list[int], data: st.DataObject) -> None:
    has = [data.draw(st.booleans()) for _ in parents]
    found = graph.nearest(_array(parents), np.array(has, dtype=bool))
    for x in range(len(parents)):
        assert found[x] == next((y for y in _way(parents, x)[:-1] if has[y]), NONE)


@given(forests(), st.data())
def test_members_and_sums_equal_walks(parents: list[int], data: st.DataObject) -> None:
    n = len(parents)
    values = _array([data.draw(st.integers(-5, 9)) for _ in range(n)])
    starts = data.draw(st.lists(st.integers(0, n - 1), max_size=3))
    ways = [_way(parents, x)[:-1] for x in range(n)]
    expected = {y for s in starts for y in ways[s]}
    assert set(np.flatnonzero(graph.members(_array(parents), _array(starts))).tolist()) == expected
    assert graph.path_sums(_array(parents), values).tolist() == [int(values[w].sum()) for w in ways]
    below = [sorted(_descendants(parents, x)) for x in range(n)]
    assert graph.subtree_sums(_array(parents), values).tolist() == [int(values[b].sum()) for b in below]
    assert graph.leaves(_array(parents)).tolist() == [len(b) == 1 for b in below]
    assert graph.child_counts(_array(parents)).tolist() == [parents.count(x) for x in range(n)]


@given(forests())
def test_order_is_depth_first_with_siblings_by_number(parents: list[int]) -> None:
    expected: list[int] = []
    stack = [x for x in reversed(range(len(parents))) if parents[x] < 0]
    while stack:
        x = stack.pop()
        expected.append(x)
        stack += [y for y in reversed(range(len(parents))) if parents[y] == x]
    assert graph.order(_array(parents)).tolist() == expected


@given(forests(), st.randoms())
def test_every_row_is_on_exactly_one_branch(parents: list[int], random: object) -> None:
    n = len(parents)
    newest = list(range(n))
    random.shuffle(newest)  # type: ignore[attr-defined]
    found = graph.branches(_array(parents), _array(newest))
    leaf_rows = [x for x in range(n) if x not in parents]
    ranked = sorted(leaf_rows, key=lambda x: -newest[x])
    for x in range(n):
        best = max((y for y in _descendants(parents, x) if y in leaf_rows), key=lambda y: newest[y])
        assert found[x] == ranked.index(best)


def test_order_and_sums_refuse_circles_and_end() -> None:
    with pytest.raises(ValueError, match="circle"):
        graph.path_sums(_array([1, 0]), _array([1, 1]))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
def test_cycles_of_every_length_are_found(length: int) -> None:
    ring = np.roll(np.arange(length), 1)
    parent = np.concatenate([ring, np.arange(length - 1, length + 4)])
    t = graph.trace(parent)
    assert (t.cycle[:length] == 0).all()
    assert (t.cycle[length:] == NONE).all()
    assert t.depth[length:].tolist() == [1, 2, 3, 4, 5]
    assert t.leads_to_cycle.all()


def test_two_million_rows_in_chains_of_200_000_are_ordinary() -> None:
    n, long = 2_000_000, 200_000
    parent = np.arange(-1, n - 1)
    parent[::long] = NONE
    t = graph.trace(parent)
    assert (t.depth == np.arange(n) % long).all()
    assert (t.root == np.arange(n) // long * long).all()
    assert graph.members(parent, _array([long - 1])).sum() == long
