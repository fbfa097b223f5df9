"""The thread budget, on trees of /proc and /sys as real machines show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_runner.devices.cpu import ThreadBudget, cgroup_quota, thread_budget

V2 = "31 23 0:28 {root} {point} rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 {root} {point} rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def v2(root: Path, group: str, quotas: dict[str, str], mount_root: str = "/") -> Path:
    return write(
        root,
        {
            "proc/self/cgroup": f"0::{group}\n",
            "proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
            + V2.format(root=mount_root, point="/sys/fs/cgroup"),
            **{f"sys/fs/cgroup/{path}cpu.max": quota for path, quota in quotas.items()},
        },
    )


def cores(root: Path, siblings: list[str]) -> Path:
    folder = "sys/devices/system/cpu"
    return write(
        root,
        {f"{folder}/cpu{i}/topology/thread_siblings_list": text for i, text in enumerate(siblings)},
    )


class TestQuota:
    def test_the_tightest_ancestor_counts(self, tmp_path: Path) -> None:
        quotas = {"a/b/c/": "max 100000\n", "a/b/": "250000 100000", "a/": "400000 100000"}
        assert cgroup_quota(v2(tmp_path, "/a/b/c", quotas)) == 2.5

    def test_max_means_no_quota(self, tmp_path: Path) -> None:
        assert cgroup_quota(v2(tmp_path, "/a", {"a/": "max 100000"})) is None

    def test_the_root_of_a_containers_own_mount(self, tmp_path: Path) -> None:
        assert cgroup_quota(v2(tmp_path, "/", {"": "50000 100000"})) == 0.5

    @pytest.mark.parametrize("group", ["/docker/xyz", "/docker/xyz/sub"])
    def test_a_mount_of_part_of_the_tree(self, tmp_path: Path, group: str) -> None:
        assert cgroup_quota(v2(tmp_path, group, {"": "300000 100000"}, "/docker/xyz")) == 3

    @pytest.mark.parametrize("group", ["/../../other", "/not/mounted"])
    def test_a_group_outside_of_the_mount_falls_back_on_it(
        self, tmp_path: Path, group: str
    ) -> None:
        assert cgroup_quota(v2(tmp_path, group, {"": "150000 100000"})) == 1.5

    def test_version_1(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            {
                "proc/self/cgroup": "4:memory:/m\n1:cpu,cpuacct:/a/b\n0::/\n",
                "proc/self/mountinfo": V1.format(root="/", point="/sys/fs/cgroup/cpu\\040x")
                + V2.format(root="/", point="/sys/fs/cgroup/unified"),
                "sys/fs/cgroup/cpu x/a/b/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu x/a/b/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu x/a/cpu.cfs_quota_us": "75000",
                "sys/fs/cgroup/cpu x/a/cpu.cfs_period_us": "50000",
            },
        )
        assert cgroup_quota(tmp_path) == 1.5

    def test_no_cgroups_at_all(self, tmp_path: Path) -> None:
        assert cgroup_quota(tmp_path) is None


class TestBudget:
    def test_affinity(self, tmp_path: Path) -> None:
        cores(tmp_path, ["0", "1", "2", "3"])
        assert thread_budget(tmp_path, {1, 2}) == ThreadBudget(
            2, 2, None, 2, "CPUs in the affinity mask: 2"
        )

    def test_two_threads_of_one_core_are_one(self, tmp_path: Path) -> None:
        cores(tmp_path, ["0,2", "1,3", "0,2", "1,3"])
        assert thread_budget(tmp_path, {0, 1, 2, 3}).threads == 2
        assert thread_budget(tmp_path, {0, 2}) == ThreadBudget(1, 2, None, 1, "physical cores: 1")

    @pytest.mark.parametrize(
        ("quota", "threads"), [("150000 100000", 1), ("20000 100000", 1), ("390000 100000", 3)]
    )
    def test_the_quota_is_rounded_down_to_at_least_one(
        self, tmp_path: Path, quota: str, threads: int
    ) -> None:
        cores(v2(tmp_path, "/", {"": quota}), [str(i) for i in range(8)])
        budget = thread_budget(tmp_path, set(range(8)))
        assert budget.threads == threads
        assert budget.reason.startswith("cgroup quota: ")

    def test_this_machine(self) -> None:
        budget = thread_budget()
        assert 1 <= budget.threads <= budget.affinity

    def test_without_topology_the_machines_cores_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("psutil.cpu_count", lambda logical: None if logical else 3)
        assert thread_budget(tmp_path, set(range(8))).threads == 3
        monkeypatch.setattr("psutil.cpu_count", lambda logical: None)
        assert thread_budget(tmp_path, set(range(8))).threads == 8
