"""The shim's event loop: one thread, epoll, one timer descriptor.

Deadlines are on CLOCK_BOOTTIME, which also runs while a machine is suspended. epoll's own time-out
does not, so the earliest deadline is put into a timerfd of that clock. With nothing to do the loop
sleeps without limit: there is no tick.
"""

from __future__ import annotations

import ctypes
import errno
import heapq
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36
TFD_TIMER_ABSTIME = 1
FEW_TIMERS = 64

_libc = ctypes.CDLL(None, use_errno=True)


def boot_now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def become_subreaper() -> None:
    """Make orphans among the descendants children of this process."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def keep_only(wanted: set[int]) -> None:
    """Closes every descriptor of a forked child but these; the first three become /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    first = 3
    for fd in [*sorted(wanted), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]:
        os.closerange(first, fd)
        first = fd + 1


def complain(error: BaseException) -> None:
    """Report a fault. Imports nothing and cannot fail: there may be no descriptor and no room on the disk."""
    lines = [f"{type(error).__name__}: {error}"]
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f"  {code.co_filename}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    try:
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    except OSError:
        return


class Timer:
    __slots__ = ("_loop", "callback")

    def __init__(self, loop: Loop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._loop.timer_cancelled()


class Loop:
    """`faulted` hears of exceptions of callbacks; the loop continues."""

    def __init__(self, faulted: Callable[[Exception], None] = complain) -> None:
        self._faulted = faulted
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._timer_count = 0
        self._cancelled = 0
        self._armed_at = 0.0
        self._stopped = False
        self._timer_fd = _checked(_libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC), "timerfd")
        self.watch(self._timer_fd, select.EPOLLIN, self._timer_fired)

    def watch(self, fd: int, mask: int, callback: Callable[[int], None]) -> None:
        if fd in self._callbacks:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.register(fd, mask)
        self._callbacks[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Must come before the descriptor is closed."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def on_signals(self, callbacks: dict[int, Callable[[], None]]) -> None:
        """Call back inside the loop, never in the middle of something else."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in callbacks:
            signal.signal(number, lambda _number, _frame: None)

        def arrived(_mask: int) -> None:
            seen = set(os.read(reader, 4096))
            for number, callback in callbacks.items():
                if number in seen:
                    self._guard(callback)

        self.watch(reader, select.EPOLLIN, arrived)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self, callback)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        self._arm()
        return timer

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_at(boot_now(), callback)

    def timer_cancelled(self) -> None:
        """Cancelled timers stay in the heap until due; walltimes are days, so clear them out."""
        self._cancelled += 1
        if self._cancelled > FEW_TIMERS and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _arm(self) -> None:
        """Set the descriptor to the earliest deadline; to none, which also clears it, without."""
        earliest = self._timers[0][0] if self._timers else 0.0
        if earliest == self._armed_at:
            return
        self._armed_at = earliest
        seconds = int(earliest)
        spec = struct.pack("@llll", 0, 0, seconds, int((earliest - seconds) * 1e9))
        _checked(_libc.timerfd_settime(self._timer_fd, TFD_TIMER_ABSTIME, spec, None), "timerfd_settime")

    def _timer_fired(self, _mask: int) -> None:
        # Not read: only setting it again clears it.
        self._armed_at = -1.0
        now = boot_now()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled = max(0, self._cancelled - 1)
            else:
                self._guard(callback)
        self._arm()

    def _guard(self, callback: Callable[..., None], *arguments: int) -> bool:
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - the loop's edge: one run's fault must not end the others
            self._faulted(error)
            return False
        return True

    def stop(self) -> None:
        self._stopped = True

    def run(self) -> None:
        """Returns after `stop`; may be called again then."""
        while not self._stopped:
            try:
                ready = self._epoll.poll()
            except OSError as error:
                if error.errno != errno.EINTR:
                    raise
                continue
            # A callback may close a descriptor whose number then means something else.
            pairs = [(fd, mask, self._callbacks.get(fd)) for fd, mask in ready]
            for fd, mask, callback in pairs:
                if callback is None or self._callbacks.get(fd) is not callback:
                    continue
                if not self._guard(callback, mask):
                    self.unwatch(fd)
        self._stopped = False
