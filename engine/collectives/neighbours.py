"""Ranks of one host that can read each other's memory: how they find out, and their notes.

Everyone shows a card: host, process, and where a random word lies in its memory. If all are of one
host each opens a line to each and reads the other's word there. Only if every rank could read every
other are they neighbours; else all go on by sockets, so no two ever disagree about the way.
"""

import ctypes
import os
import secrets
import select
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from engine.collectives.peer_memory import PeerMemory, host_and_processes, let_peers_read

_WORD_BYTES = 16
_CONNECT_WITHIN_S = 20.0
_NOTE = struct.Struct("=BIQQ")
_CREDENTIALS = struct.Struct("iII")


class Word(IntEnum):
    """What a note says."""

    HERE = 1
    """What you are to read lies at this address."""
    READ = 2
    """I have read it: the memory is yours again."""


@dataclass(frozen=True, slots=True)
class Note:
    """A few bytes from a neighbour."""

    peer: int
    word: Word
    tag: int
    size_bytes: int
    address: int


class Neighbours:
    """A line to each peer, and its memory."""

    def __init__(self, lines: dict[int, socket.socket], memories: dict[int, PeerMemory]) -> None:
        self.memories = memories
        self.lost: set[int] = set()
        """Whose line has ended."""
        self._lines = lines
        self._peer_of = {line.fileno(): peer for peer, line in lines.items()}
        self._poll = select.poll()
        for number in self._peer_of:
            self._poll.register(number, select.POLLIN)

    def send(self, peer: int, word: Word, tag: int, size_bytes: int, address: int) -> None:
        """Leave a note with a peer. That it is gone is heard, after what it said before."""
        with suppress(OSError):
            self._lines[peer].send(_NOTE.pack(word, tag, size_bytes, address))

    def hear(self, *, patiently: bool) -> list[Note]:
        """What has come from the peers; patiently: stand still until something has."""
        notes = []
        for number, _ in self._poll.poll(None if patiently else 0):
            peer = self._peer_of[number]
            try:
                raw = self._lines[peer].recv(_NOTE.size)
            except OSError:
                raw = b""
            if not raw:
                self.lost.add(peer)
                self._poll.unregister(number)
                continue
            word, tag, size_bytes, address = _NOTE.unpack(raw)
            notes.append(Note(peer, Word(word), tag, size_bytes, address))
        return notes

    def break_off(self) -> None:
        """End all lines; whoever stands still in `hear`, here or there, goes on."""
        for line in self._lines.values():
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the lines back; peers hear of it even if a forked process holds copies."""
        self.break_off()
        for line in self._lines.values():
            line.close()


def find_neighbours(
    rank: int, *, willing: bool, share: Callable[[Any], Sequence[Any]]
) -> Neighbours | None:
    """The peers as neighbours; None on every rank if one cannot, or is not willing to, be one.

    `share` gives every rank's object, in rank order; all ranks call this.
    """
    host = host_and_processes() if willing else None
    word = ctypes.create_string_buffer(secrets.token_bytes(_WORD_BYTES), _WORD_BYTES)
    listener = None if host is None else _listen()
    card = None
    if listener is not None:
        let_peers_read()
        name = listener.getsockname()
        card = (host, os.getpid(), ctypes.addressof(word), word.raw, name)
    cards = share(card)
    found = None
    if listener is not None:
        with listener:
            if all(each is not None and each[0] == host for each in cards):
                found = _call_on(rank, cards, listener)
    everyone_can = all(share(found is not None))
    if found is not None and not everyone_can:
        found.close()
    return found if everyone_can else None


def _listen() -> socket.socket | None:
    """A name without a file, which the kernel chooses and which ends with the process."""
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        return None
    try:
        listener.bind("")
        listener.listen(128)
    except OSError:
        listener.close()
        return None
    return listener


def _call_on(
    rank: int, cards: Sequence[tuple[str, int, int, bytes, bytes]], listener: socket.socket
) -> Neighbours | None:
    """Call those before this rank, open to those after it, and read everyone's word."""
    lines: dict[int, socket.socket] = {}
    memories = {peer: PeerMemory(card[1]) for peer, card in enumerate(cards) if peer != rank}
    rank_of = {card[1]: peer for peer, card in enumerate(cards)}
    listener.settimeout(_CONNECT_WITHIN_S)
    try:
        for peer in range(rank):
            lines[peer] = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            lines[peer].connect(cards[peer][4])
        while len(lines) < len(cards) - 1:
            line, _ = listener.accept()
            caller = rank_of.get(_process_at(line), rank)
            if caller <= rank or caller in lines:
                line.close()  # A stranger's call.
                continue
            line.settimeout(None)
            lines[caller] = line
        for peer, memory in memories.items():
            _, _, address, word, _ = cards[peer]
            read = ctypes.create_string_buffer(_WORD_BYTES)
            memory.read_bytes(ctypes.addressof(read), address, _WORD_BYTES)
            if read.raw != word:
                raise OSError("another process has this number here")
    except OSError:
        for line in lines.values():
            line.close()
        return None
    return Neighbours(lines, memories)


def _process_at(line: socket.socket) -> int:
    raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process: int = _CREDENTIALS.unpack(raw)[0]
    return process
