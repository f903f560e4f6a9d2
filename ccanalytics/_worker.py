"""A worker process: reads jobs from standard input, parses them, writes frames to standard output.

Frames travel as Arrow IPC, never as pickles. The protocol is a length and that many bytes, both ways.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import BinaryIO

import msgspec
import polars as pl

from .blocks import Nulls
from .jobs import Job, JobResult, run_job
from .parse import BLOCK_ROWS, ENTRY_ROWS, PROBLEM_ROWS

_SIZE = 8


class Reply(msgspec.Struct):
    """What precedes the three frames of a result: their sizes and the facts of each piece."""

    sizes: tuple[int, int, int]
    result: JobResult


def write_message(stream: BinaryIO, data: bytes | bytearray) -> None:
    """Write one length-prefixed message."""
    stream.write(len(data).to_bytes(_SIZE, "little"))
    stream.write(data)


def read_message(stream: BinaryIO) -> bytes | None:
    """The next message; None when the other side has closed."""
    head = _read_exactly(stream, _SIZE)
    return None if head is None else _read_exactly(stream, int.from_bytes(head, "little"))


def _read_exactly(stream: BinaryIO, n: int) -> bytes | None:
    data = stream.read(n)
    return data if len(data) == n else None


def encode_reply(result: JobResult) -> bytes:
    """A result as bytes."""
    bodies = []
    for frame in (result.entries, result.blocks, result.problems):
        buffer = io.BytesIO()
        assert frame is not None
        held = [name for name in frame.columns if name == "row" or frame[name].null_count() < len(frame)]
        frame.select(held).write_ipc_stream(buffer, compression="uncompressed")
        bodies.append(buffer.getvalue())
    facts = JobResult(parts=result.parts, unreadable=result.unreadable)
    head = msgspec.msgpack.encode(Reply((len(bodies[0]), len(bodies[1]), len(bodies[2])), facts))
    return len(head).to_bytes(_SIZE, "little") + head + b"".join(bodies)


def decode_reply(data: bytes) -> JobResult:
    """The result from its bytes."""
    n = int.from_bytes(data[:_SIZE], "little")
    reply = msgspec.msgpack.decode(data[_SIZE : _SIZE + n], type=Reply)
    at = _SIZE + n
    frames = []
    for size, schema in zip(reply.sizes, (ENTRY_ROWS, BLOCK_ROWS, PROBLEM_ROWS), strict=True):
        held = pl.read_ipc_stream(data[at : at + size])
        nulls = Nulls(len(held))
        frames.append(pl.DataFrame([held[n] if n in held else nulls.of(d).alias(n) for n, d in schema.items()]))
        at += size
    reply.result.entries, reply.result.blocks, reply.result.problems = frames
    return reply.result


def main() -> None:
    """Serve jobs until standard input closes."""
    gc.disable()
    # Whatever a library prints must not get between the frames.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 20)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    source = sys.stdin.buffer
    write_message(out, b"up")
    out.flush()
    while (message := read_message(source)) is not None:
        write_message(out, encode_reply(run_job(msgspec.msgpack.decode(message, type=Job))))
        out.flush()
