"""Verilog of other people, at a fixed commit: downloaded to the cache, and checked by its SHA-256 digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bitlane.data.downloads import RemoteFile, download
from bitlane.support.cache import cache_folder


@dataclass(frozen=True)
class ForeignSources:
    """Files of one folder of a repository on GitHub.

    Attributes
    ----------
    repository : str
        Owner and name.
    commit : str
        40 hexadecimal digits.
    folder : str
        The folder in the repository.
    digests : dict of str to str
        SHA-256 digest of each file by its name.
    """

    repository: str
    commit: str
    folder: str
    digests: dict[str, str]

    @property
    def cache(self) -> Path:
        """The folder of the files on this machine. Files that are already there are not downloaded."""
        return cache_folder() / "foreign" / self.commit

    def remote(self, name: str) -> RemoteFile:
        """Return a file with its address."""
        address = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.folder}/{name}"
        return RemoteFile(address, self.digests[name])

    def text(self, *names: str) -> str:
        """Return files one after the other; by default all of them.

        Raises
        ------
        DataError
            A file cannot be downloaded, or is not the expected one.
        BitlaneError
            The cache cannot be written, or pooch is not installed.
        """
        return "\n".join(self._path(name).read_text() for name in names or self.digests)

    def _path(self, name: str) -> Path:
        advice = f"put {self.folder}/{name} of {self.repository} at commit {self.commit} into {self.cache}"
        return download(self.remote(name), self.cache, "checking against other people's Verilog", advice)


WB2AXIP = ForeignSources(
    "ZipCPU/wb2axip",
    "df8e7649acf68544a152e39a4589c8e894a4cd0b",
    "bench/formal",
    {
        "faxil_slave.v": "b2b4b2a16e044e6224a17bd083b7b4ad6b6b2a67d887507b39845188fdbdc9a0",
        "faxi_master.v": "103ea2e64970d9834d1e2521e4afd18ece081100a37bd61f6da9abd6982d25ac",
    },
)

VERILOG_AXI = ForeignSources(
    "alexforencich/verilog-axi",
    "516bd5dadc3365b7f9e225d2af8fe0b8d804fe53",
    "rtl",
    {
        "axi_crossbar.v": "f2e5177a8c8bbe4ed844554eece7abd207365a8a7a20796e0654e08362b51b3d",
        "axi_crossbar_rd.v": "d42e9e3b8d94ba9e135cd3e5841ee570dce2cd15d50e7ca87621c8eca246fe98",
        "axi_crossbar_wr.v": "0892781788371df9d3449608d342542269eb05efd0b6827fdea575d538368816",
        "axi_crossbar_addr.v": "5d0e1a5b885c6b271b864b64a834057496428147ce3c3ae633459251239048fb",
        "arbiter.v": "a001507c82843e36e133dea75491fc044f56660fac0aff0127cf3afec7f927e0",
        "priority_encoder.v": "df28220d95b47df349a72803a9751aad331eb8e1435416e8686d00572a974dd5",
        "axi_register_rd.v": "63f1bd6f9d72ae28643fd7af3a5d5bcb05d45cbfb290c59c120c327ba49aa575",
        "axi_register_wr.v": "02dd26f56ee04ad834a28e02ef2726852ab527fb23c3a88b377f3ce55a719c4b",
        "axi_ram.v": "2eb669f3cd1fd912a74c024df3bea5765a3599eead1a007c63f19b6b185d55c4",
    },
)
