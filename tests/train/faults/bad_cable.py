"""A cable between the two nodes that delays, throttles, loses and damages what goes over it, packet by packet."""

import collections
import ctypes
import fcntl
import os
import select
import struct
import threading
import time

import two_nodes

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
TCP, RST, ACK = 6, 0x04, 0x10
LEAST = 64  # bytes of a message that is worth a fault


def open_tun(namespace):
    """The end of a cable in the network namespace of a process."""
    opened = []

    def enter():
        with open(f"/proc/{namespace}/ns/net") as network:
            assert ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) == 0
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH14x", two_nodes.CABLE.encode(), IFF_TUN | IFF_NO_PI))
        opened.append(end)

    thread = threading.Thread(target=enter)  # only this thread goes there
    thread.start()
    thread.join()
    return opened[0]


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Packet:
    """An IPv4 packet with TCP in it."""

    def __init__(self, data):
        self.ip, rest = data[:20], data[20:]
        self.source, self.to, self.seq, self.ack, offset, self.flags = struct.unpack("!HHIIBB", rest[:14])
        self.head, self.payload = rest[:(offset >> 4) * 4], rest[(offset >> 4) * 4:]

    @staticmethod
    def holds(data):
        return len(data) >= 40 and data[0] == 0x45 and data[9] == TCP

    def bytes(self):
        head = self.head[:16] + b"\0\0" + self.head[18:]
        size = len(head) + len(self.payload)
        pseudo = self.ip[12:20] + struct.pack("!HH", TCP, size)
        head = head[:16] + struct.pack("!H", checksum(pseudo + head + self.payload)) + head[18:]
        ip = self.ip[:2] + struct.pack("!H", 20 + size) + self.ip[4:10] + b"\0\0" + self.ip[12:]
        return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + head + self.payload

    def reset(self, seq):
        """A reset that follows this packet."""
        reset = Packet(self.bytes())
        reset.head = struct.pack("!HHIIBBHHH", self.source, self.to, seq % 2**32, self.ack, 5 << 4, RST | ACK, 0, 0, 0)
        reset.payload = b""
        return reset.bytes()

    def reset_back(self):
        """A reset by the one who would have got it."""
        reset = Packet(self.bytes())
        reset.ip = self.ip[:12] + self.ip[16:20] + self.ip[12:16]
        reset.head = struct.pack("!HHIIBBHHH", self.to, self.source, self.ack,
                                 (self.seq + len(self.payload)) % 2**32, 5 << 4, RST | ACK, 0, 0, 0)
        reset.payload = b""
        return reset.bytes()


class BadCable(two_nodes.TwoNodes):
    """Good until one of its numbers is set. Directions are 0, from node 0 to node 1, and 1."""

    delay = 0.0           # s
    rate = float("inf")   # bytes/s
    loses = frozenset()   # directions
    flips = 0             # messages that get one bit flipped
    cuts = 0              # messages of which half arrives, and whose connection is then reset
    resent = 0            # bytes that senders sent again

    def lay_cable(self):
        self.ends = [open_tun(holder.pid) for holder in self.holders]
        self.ends_with = os.pipe()
        self.sent = collections.defaultdict(int)  # of each connection and direction: the end of its bytes
        self.failure = None
        self.thread = threading.Thread(target=self.forward_or_tell)
        self.thread.start()

    def __exit__(self, *error):
        os.close(self.ends_with[1])
        self.thread.join()
        for end in (*self.ends, self.ends_with[0]):
            os.close(end)
        super().__exit__(*error)
        if self.failure is not None:
            raise self.failure

    def forward_or_tell(self):
        try:
            self.forward()
        except Exception as failure:
            self.failure = failure

    def forward(self):
        under_way, free_at = [collections.deque(), collections.deque()], [0.0, 0.0]
        while True:
            now = time.monotonic()
            due = min((queue[0][0] for queue in under_way if queue), default=now + 1)
            ready, _, _ = select.select([*self.ends, self.ends_with[0]], [], [], max(0, due - now))
            if self.ends_with[0] in ready:
                return
            for direction, end in enumerate(self.ends):
                for data in self.take(end, direction) if end in ready else ():
                    free_at[direction] = max(free_at[direction], time.monotonic()) + len(data) / self.rate
                    under_way[direction].append((free_at[direction] + self.delay, data))
            for direction, queue in enumerate(under_way):
                while queue and queue[0][0] <= time.monotonic():
                    self.put(1 - direction, queue.popleft()[1])

    def take(self, end, direction):
        """The packets that came in at one end and leave at the other one."""
        try:
            while True:
                data = os.read(end, 65536)
                if Packet.holds(data):
                    yield from self.pass_on(Packet(data), direction)
                elif direction not in self.loses:
                    yield data
        except OSError:  # nothing more, or the link is down
            return

    def pass_on(self, packet, direction):
        if packet.payload:
            key = direction, packet.source, packet.to
            after = packet.seq + len(packet.payload)
            self.resent += max(0, min(len(packet.payload), self.sent[key] - packet.seq))
            self.sent[key] = max(self.sent[key], after)
        if direction in self.loses:
            return
        if len(packet.payload) >= LEAST and self.flips > 0:
            self.flips -= 1
            middle = len(packet.payload) // 2
            packet.payload = (packet.payload[:middle] + bytes([packet.payload[middle] ^ 1]) +
                              packet.payload[middle + 1:])
        if len(packet.payload) >= LEAST and self.cuts > 0:
            self.cuts -= 1
            self.put(direction, packet.reset_back())
            packet.payload = packet.payload[:len(packet.payload) // 2]
            yield packet.bytes()
            yield packet.reset(packet.seq + len(packet.payload))
            return
        yield packet.bytes()

    def put(self, node, data):
        try:
            os.write(self.ends[node], data)
        except OSError:  # the link is down
            pass
