"""What earlier runs of the same kind found out: which batches hold no trigger, and what each candidate gave.

A batch is known by its names and by what the file system says of each file (inode, size, times of change), compared for
equality; one that holds a file changed less than two seconds before it was read is not kept, since another change
within the same tick would not show. A candidate is known by its content, its path, its project's metadata and facts,
the policy, and the contents of the other files that were looked into for it. Errors are never kept.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterable
from dataclasses import replace

from torchmigrate import __version__, cache, registry
from torchmigrate.discover import Batch
from torchmigrate.facts import Facts
from torchmigrate.model import FileResult, Policy, Settings
from torchmigrate.roots import Projects
from torchmigrate.scan import Found
from torchmigrate.siblings import Setters, holds
from torchmigrate.work import Job, Look, Looked


class Memory:
    """The cache as a run uses it. Empty, and keeping nothing, with --no-cache."""

    def __init__(self, settings: Settings, job: Job, modules: Iterable[str], roots: Projects) -> None:
        """`modules` are those that define the codemods of the run."""
        self._store: cache.Store | None = None
        self._roots = roots
        self._digests: dict[int, tuple[object, bytes]] = {}
        self._setters = Setters()
        self._met: set[tuple[str, str | None]] = set()
        code = registry.fingerprint(modules) if settings.cache else None
        if code is not None:
            homes = [os.path.realpath(path) for path in settings.paths]
            scope = cache.key(__version__, sys.version, code, repr(job), os.path.realpath(os.curdir), *homes)
            self._store = cache.Store(scope, apart_from=homes)

    def recall(self, batch: Batch) -> Batch:
        """The batch with the state in which its outcome is known, if it is."""
        known = self._store.get(_batch_key(batch)) if self._store else None
        if self._store is None:
            return batch
        return replace(batch, watched=True, known=pickle.loads(known)[0] if known else b"")

    def settle(self, batch: Batch, found: Found) -> Found:
        """What a scan found, or what was found when the batch was last in the same state."""
        if self._store is None or not batch.watched:
            return found
        if found.unchanged:
            kept = self._store.get(_batch_key(batch))
            assert kept is not None
            earlier: Found = pickle.loads(kept)[1]
            return earlier
        if found.state and not found.errors:
            self._store.put(_batch_key(batch), pickle.dumps((found.state, found)))
        return found

    def look(self, task: Look) -> Looked | None:
        """What a file gave under this policy, if it is known; nothing found is nothing under any policy."""
        if self._store is None or task.policy.decisions:
            return None
        about = self._about(task)
        kept = self._store.get(cache.key(b"nothing", about))
        if kept is None:
            kept = self._store.get(cache.key(b"look", about, self._digest(task.policy)))
        if kept is None:
            return None
        result, gathered, read, consulted = pickle.loads(kept)
        if not holds(task.root, consulted, self._setters):
            return None
        project = None
        met = task.root, task.home.min_torch if task.home else None
        if met not in self._met:
            known_project = self._store.get(self._project_key(task))
            if known_project is None:
                return None
            project = pickle.loads(known_project)
            self._met.add(met)
        result = result or FileResult(task.hit.path, digest=task.hit.digest)
        return Looked(result, project, gathered, read, consulted)

    def keep_look(self, task: Look, looked: Looked) -> None:
        """Remember what a file gave, unless something went wrong or the file changed since it was scanned."""
        result = looked.result
        if self._store is None or task.policy.decisions:
            return
        if looked.project is not None:
            self._store.put(self._project_key(task), pickle.dumps(looked.project))
        if result.errors or result.digest != task.hit.digest:
            return
        about = self._about(task)
        told = looked.gathered, looked.read, looked.consulted
        if not result.findings:
            self._store.put(cache.key(b"nothing", about), pickle.dumps((None, *told)))
        else:
            self._store.put(cache.key(b"look", about, self._digest(task.policy)), pickle.dumps((result, *told)))

    def save(self) -> None:
        """Keep everything for later runs; to be called after a complete one."""
        if self._store is not None:
            self._store.save()

    def _about(self, task: Look) -> bytes:
        home = repr(task.home) if task.home else ""
        about = (task.hit.path, task.hit.digest, task.root, self._roots.fingerprint(task.root), home)
        return cache.key(*about, b"" if task.facts is None else self._digest(task.facts))

    def _project_key(self, task: Look) -> bytes:
        torch = (task.home.min_torch or "") if task.home else ""
        return cache.key(b"project", task.root, self._roots.fingerprint(task.root), torch)

    def _digest(self, value: Facts | Policy) -> bytes:
        """A digest of facts or a policy, made once for each object."""
        known = self._digests.get(id(value))
        if known is None:
            if isinstance(value, Policy):
                known = (value, cache.key(repr((sorted(value.default), value.propose))))
            else:
                known = (value, cache.key(pickle.dumps(dict(value))))
            self._digests[id(value)] = known
        return known[1]


def _batch_key(batch: Batch) -> bytes:
    return cache.key(b"batch", batch.folder, b"\0".join(batch.names), b"named" if batch.named else b"")
