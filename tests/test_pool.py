"""Workers that crash, hang and raise, and a supervisor that neither loses a task nor waits for ever."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.pool import ExecutorPool, Failure, Pool


class Doer:
    """Does what a task says, in a worker."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.done = 0

    def __call__(self, task: Any) -> Any:
        self.done += 1
        match task:
            case int():
                return task + self.offset
            case "pid":
                return os.getpid(), self.done
            case ("who", _):
                time.sleep(0.005)
                return os.getpid()
            case "crash":
                faulthandler.disable()
                ctypes.string_at(0)
            case "exit":
                os._exit(7)
            case "hang":
                time.sleep(600)
            case "raise":
                raise ValueError("no good")
            case "recurse":
                return nested(10**9)
            case "deep":
                return nested(100_000)
            case "core":
                return resource.getrlimit(resource.RLIMIT_CORE)[0]
            case "print":
                print("noise on stdout", flush=True)
                os.write(1, b"more noise")
                return "printed"
            case bytes():
                return task * 2
        return None


def nested(depth: int) -> int:
    return 0 if depth == 0 else 1 + nested(depth - 1)


def outcomes(pool: Any, tasks: list[Any]) -> dict[Any, Any]:
    found = list(pool.run(tasks))
    assert len(found) == len(tasks)
    return dict(found)


@pytest.fixture
def pool() -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(jobs: int = 2, timeout: float = 60.0) -> Pool:
        made.append(Pool(Doer, (1000,), jobs, timeout))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_every_task_is_done_once(pool: Callable[..., Pool]) -> None:
    assert outcomes(pool(3), list(range(200))) == {n: n + 1000 for n in range(200)}


def test_a_worker_is_prepared_once_and_used_again(pool: Callable[..., Pool]) -> None:
    one = pool(1)
    first, second = outcomes(one, ["pid"])["pid"], outcomes(one, ["pid"])["pid"]
    assert first[0] == second[0] != os.getpid()
    assert (first[1], second[1]) == (1, 2)


def test_pushed_tasks_come_before_the_rest(pool: Callable[..., Pool]) -> None:
    one = pool(1)
    order = []
    for task, _ in one.run(range(5)):
        order.append(task)
        if task == 0:
            one.push(100)
            one.push(101)
    assert order == [0, 100, 101, 1, 2, 3, 4] or order == [0, 1, 100, 101, 2, 3, 4]


def test_pushed_tasks_stay_with_one_worker_while_there_are_others(pool: Callable[..., Pool]) -> None:
    one = pool(2)
    given, pushed = 60, []
    who: dict[Any, int] = {}
    for task, result in one.run(("who", n) for n in range(given)):
        who[task] = result
        if task[1] < 20:
            one.push(("who", 1000 + task[1]))
        elif task[1] < given:
            pushed = [result for (_, n), result in who.items() if n >= 1000]
    assert len(who) == given + 20
    assert len({result for (_, n), result in who.items() if n < given}) == 2
    assert len(pushed) > 5
    assert len(set(pushed)) == 1


def test_pushed_tasks_go_on_without_the_worker_that_had_them(pool: Callable[..., Pool]) -> None:
    one = pool(2)
    found = {}
    for task, result in one.run(range(20)):
        found[task] = result
        if task == 0:
            one.push("exit")
        elif task == "exit":
            one.push(100)
    assert len(found) == 22
    assert found[100] == 1100


def test_many_pushed_tasks_are_done_by_all_workers(pool: Callable[..., Pool]) -> None:
    one = pool(2)
    who: dict[Any, int] = {}
    for task, result in one.run(("who", n) for n in range(400)):
        who[task] = result
        if task[1] == 0:
            for n in range(200):
                one.push(("who", 1000 + n))
    assert len({result for (_, n), result in who.items() if n >= 1000}) == 2


def test_results_larger_than_a_pipe(pool: Callable[..., Pool]) -> None:
    data = os.urandom(3_000_000)
    assert outcomes(pool(), [data])[data] == data * 2


def test_lost_tasks_are_named_and_the_rest_is_done(pool: Callable[..., Pool]) -> None:
    one = pool(2, timeout=1.0)
    found = outcomes(one, [1, "crash", 2, "hang", 3, "exit", 4, "raise", 5])
    assert {task: found[task] for task in (1, 2, 3, 4, 5)} == {n: n + 1000 for n in (1, 2, 3, 4, 5)}
    assert found["crash"] == Failure("TM005", "the worker crashed on this file (signal 11)")
    assert found["exit"] == Failure("TM005", "the worker crashed on this file (exit code 7)")
    assert found["hang"] == Failure("TM004", "gave up after 1 s")
    assert found["raise"] == Failure("TM011", "internal error (ValueError: no good); please report it")
    assert outcomes(one, [6, 7]) == {6: 1006, 7: 1007}


def test_a_crash_leaves_no_core_file(pool: Callable[..., Pool]) -> None:
    assert outcomes(pool(1), ["core"]) == {"core": 0}


def test_a_pool_of_crashes_ends(pool: Callable[..., Pool]) -> None:
    found = list(pool(2).run(["crash"] * 10))
    assert [outcome.code for _, outcome in found] == ["TM005"] * 10


def test_a_worker_that_died_while_idle_is_replaced(pool: Callable[..., Pool]) -> None:
    one = pool(1)
    process, _ = outcomes(one, ["pid"])["pid"]
    os.kill(process, signal.SIGKILL)
    time.sleep(0.2)
    assert outcomes(one, [1, 2]) == {1: 1001, 2: 1002}


def test_deep_recursion_has_room(pool: Callable[..., Pool]) -> None:
    assert outcomes(pool(1), ["deep"]) == {"deep": 100_000}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pure Python recursion is bounded by memory alone there")
def test_endless_recursion_is_a_failure(pool: Callable[..., Pool]) -> None:
    assert outcomes(pool(1), ["recurse"])["recurse"].code == "TM005"


def test_what_a_worker_prints_is_not_on_stdout() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_pool import Doer, Pool\n"
        "if __name__ == '__main__':\n"
        "    print('before', flush=True)\n"
        "    print(dict(Pool(Doer, (1,), 1).run(['print'])), flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=project())
    assert done.stdout == "before\n{'print': 'printed'}\n"
    assert "noise on stdout" in done.stderr


def test_beside_other_threads_workers_are_started_afresh(pool: Callable[..., Pool]) -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        assert outcomes(pool(2), [1, "crash", 2])[2] == 1002
    finally:
        waiting.set()
        thread.join()


def test_leaving_early_ends_the_busy_workers(pool: Callable[..., Pool]) -> None:
    one = pool(2)
    began = time.monotonic()
    for task, _ in one.run([1, "hang", 2]):
        if task == 2:
            break
    assert outcomes(one, [3]) == {3: 1003}
    assert time.monotonic() - began < 60


def project() -> Path:
    return Path(__file__).resolve().parent.parent


HANGING = (
    "import sys; sys.path.insert(0, 'tests')\n"
    "from test_pool import Doer, Pool\n"
    "if __name__ == '__main__':\n"
    "    pool = Pool(Doer, (1,), 2)\n"
    "    for task, outcome in pool.run(['pid', 'pid', 'hang', 'hang']):\n"
    "        print(outcome[0], flush=True)\n"
)


def start_hanging() -> tuple[subprocess.Popen[str], set[int]]:
    """A process with two hanging workers, and these workers' numbers."""
    running = subprocess.Popen(
        [sys.executable, "-c", HANGING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project(),
        start_new_session=True,
    )
    assert running.stdout is not None
    workers = {int(running.stdout.readline()) for _ in range(2)}
    return running, workers


def wait_until_gone(processes: set[int]) -> None:
    for _ in range(200):
        if not any(Path(f"/proc/{process}").exists() for process in processes):
            return
        time.sleep(0.05)
    raise AssertionError(f"still there: {processes}")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_interrupt_ends_everything_at_once_and_quietly() -> None:
    running, workers = start_hanging()
    time.sleep(0.3)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")
    wait_until_gone(workers)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("tasks", ["'hang', 'hang'", ""], ids=["busy", "idle"])
def test_workers_of_a_killed_parent_end(tasks: str) -> None:
    program = HANGING.replace("'hang', 'hang'", tasks) + "    import time; time.sleep(600)\n"
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=project())
    assert running.stdout is not None
    workers = {int(running.stdout.readline()) for _ in range(2)}
    running.kill()
    running.communicate(timeout=30)
    wait_until_gone(workers)


class TestExecutor:
    def test_same_results_through_any_executor(self) -> None:
        with ThreadPoolExecutor(3) as executor:
            one = ExecutorPool(executor, Doer, (1000,), in_flight=4)
            assert outcomes(one, list(range(50))) == {n: n + 1000 for n in range(50)}
            found = outcomes(one, ["raise", 1])
            assert found == {
                "raise": Failure("TM011", "internal error (ValueError: no good); please report it"),
                1: 1001,
            }

    def test_tasks_and_failures_are_plain_data(self) -> None:
        failure = Failure("TM004", "gave up")
        assert pickle.loads(pickle.dumps(failure)) == failure
