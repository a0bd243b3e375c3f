"""Batches on their way to a worker and back: one session's channel, and the memory that it shares.

A batch is written into a piece of shared memory once and read in place; so are its answers. While
the worker answers one batch the next one may be sent, so that it never waits for the gate.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from paritygate.core.tensors import Batch
from paritygate.runners.isolate.channel import PROTOCOL, Channel
from paritygate.runners.isolate.memory import SharedMemory, room_for, write_tensors
from paritygate.runners.isolate.process import Worker
from paritygate.runners.isolate.replies import Answer, Refusal, read_reply
from paritygate.runners.isolate.runner import IsolatedRunner

_ROOM = 1 << 16
# A longer message may not fit into the socket beside an answer of which the worker isn't rid yet:
# both would wait for the other to read.
_LONGEST_AHEAD = 1 << 16


class Piece:
    """Memory of one batch and its answers, and its number among those of a session."""

    def __init__(self, number: int, memory: SharedMemory) -> None:
        self.number = number
        self.memory = memory
        self.known_to = -1  # generation of the worker that has it
        self.free = 0  # where the inputs end


class Request(Struct):
    """A batch that a worker was given, and what it said, once that has been received.

    Attributes:
        batch: what was sent.
        worker: to whom.
        piece: where it lies, and its answers.
        serial: its number.
        sent: when, by `time.perf_counter`.
        reply: None while it is on its way.
        seconds: between the answer before it, or its sending, and its own answer.
        ended: what ended the worker before it answered.
    """

    batch: Batch
    worker: Worker
    piece: Piece
    serial: int
    sent: float = field(default_factory=time.perf_counter)
    reply: Answer | Refusal | None = None
    seconds: float = 0.0
    ended: Exception | None = None

    @property
    def is_on_its_way(self) -> bool:
        """Whether its answer has still to be received."""
        return self.reply is None and self.ended is None


class Requests:
    """The channel of one session; answers come in the order of the requests."""

    def __init__(self, runner: IsolatedRunner) -> None:
        self._runner = runner
        self._channel: Channel | None = None
        self._generation = -1
        self._free: list[Piece] = []
        self._made = 0
        self._serial = 0
        self._room = _ROOM
        self._on_their_way = 0
        self._received = 0.0
        self._are_long = False
        self._is_closed = False

    def send(self, worker: Worker, batch: Batch, limit_s: float) -> Request:
        """Give a worker a batch while it has none.

        Raises:
            ClosedError, LateError, GarbledError: the worker is of no use any more.
            MemoryError: this process has too little; nothing was sent.
        """
        channel = self._channel_to(worker, limit_s)
        channel.expect_silence()
        request, data = self._write(worker, batch)
        self._post(channel, request, data, limit_s)
        return request

    def send_ahead(self, worker: Worker, batch: Batch, limit_s: float) -> Request | None:
        """Give a worker a batch while it has another one; None where it can't be.

        Raises:
            ClosedError, LateError: as `send`.
        """
        if self._are_long or self._channel is None or self._generation != worker.generation:
            return None
        try:
            request, data = self._write(worker, batch)
        except MemoryError:
            return None  # tried again when it is this batch's turn
        if len(data) > _LONGEST_AHEAD:
            self._are_long = True  # as the others will be
            self._free.append(request.piece)
            return None
        self._post(self._channel, request, data, limit_s)
        return request

    def receive(self, request: Request, limit_s: float, is_alive: Callable[[], bool]) -> None:
        """Wait for the answer to the oldest request that has none yet.

        Args:
            request: that request; given its reply.
            limit_s: from when the worker could begin.
            is_alive: whether the worker is; asked now and then.

        Raises:
            ClosedError, LateError, GarbledError: as `send`.
        """
        channel = self._channel
        assert channel is not None
        began = max(request.sent, self._received)
        left = max(0.0, began + limit_s - time.perf_counter())
        told = channel.receive(left, is_alive, is_plain=True)
        self._received = time.perf_counter()
        self._on_their_way -= 1
        if not self._on_their_way:
            channel.expect_silence()
        piece = request.piece
        reply = read_reply(told, request.serial, piece.memory, piece.free, request.batch.valid)
        request.seconds = self._received - began
        if isinstance(reply, Refusal):
            self._free.append(piece)
        else:
            self._room = max(self._room, room_for(reply.outputs.values()))
        request.reply = reply

    def give_back(self, piece: Piece) -> None:
        """Memory is free for another batch."""
        if not self._is_closed:
            self._free.append(piece)

    def drop(self) -> None:
        """Forget the worker, and what is on its way to it and back."""
        self._on_their_way = 0
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """Let go of the channel, and of memory that isn't leased."""
        self._is_closed = True
        self._free = []
        self.drop()

    def _write(self, worker: Worker, batch: Batch) -> tuple[Request, bytes]:
        piece = self._free.pop() if self._free else self._new_piece()
        try:
            return self._fill(piece, worker, batch)
        except MemoryError:
            self._free.append(piece)
            raise

    def _fill(self, piece: Piece, worker: Worker, batch: Batch) -> tuple[Request, bytes]:
        piece.memory.reserve(room_for(batch.inputs.values()) + self._room)
        told, piece.free = write_tensors(piece.memory, batch.inputs, 0)
        ids = batch.ids
        serial = self._serial + 1
        message = (
            serial,
            piece.number,
            piece.memory.capacity,
            (batch.bucket, batch.number, batch.start, batch.valid, batch.size),
            ids.tobytes() if ids.dtype == np.int64 else ids.tolist(),
            told,
            piece.free,
        )
        return Request(batch, worker, piece, serial), pickle.dumps(message, PROTOCOL)

    def _post(self, channel: Channel, request: Request, data: bytes, limit_s: float) -> None:
        piece, worker = request.piece, request.worker
        is_known = piece.known_to == worker.generation
        fds = () if is_known else (piece.memory.fd,)
        channel.send_bytes(data, fds, limit_s, worker.is_alive)
        piece.known_to = worker.generation
        self._serial = request.serial
        self._on_their_way += 1
        request.sent = time.perf_counter()

    def _new_piece(self) -> Piece:
        self._made += 1
        return Piece(self._made, SharedMemory.create(self._room))

    def _channel_to(self, worker: Worker, limit_s: float) -> Channel:
        if self._channel is not None and self._generation == worker.generation:
            return self._channel
        self.drop()
        self._channel, theirs = Channel.pair()
        self._generation = worker.generation
        try:
            self._runner.open_channel(worker, theirs.fileno(), limit_s)
        finally:
            theirs.close()
        return self._channel
