"""The programs that the speed study compares with: Vowpal Wabbit, libffm, libFM, fastFM, scikit-learn."""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane_studies.sparse.processes import Timing, run_child, run_program, run_python
from bitlane_studies.sparse.rows import SplitRows

Setting = dict[str, float]  # what the tuning chooses, by name
Probabilities = NDArray[np.float64]
SCALE = 0.05  # standard deviation of the first factors, of all FMs


@dataclass(frozen=True)
class Workspace:
    """Where measured work runs.

    Attributes
    ----------
    folder : Path
        For models and predictions.
    cores : sequence of int
        Of the processor.
    """

    folder: Path
    cores: Sequence[int]


class Contender(ABC):
    """A program that trains one kind of model from one kind of input.

    Attributes
    ----------
    program, reads : str
        Names for the table.
    fixed : str
        The settings that are the same in all runs, for the table.
    grid : tuple of Setting
        The choices of the tuning.
    tuned_as : str
        Contenders with the same name have the same model, and are tuned once.
    """

    program: str
    reads: str
    fixed: str
    grid: tuple[Setting, ...]
    tuned_as: str

    def missing(self) -> str | None:
        """Return how to get the program, or None if it is here."""
        return None

    def prepare(self, learn: SplitRows) -> None:  # noqa: B027
        """Write what a timed run finds ready."""

    @abstractmethod
    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        """Train and measure the time. The model stays in the workspace's folder."""

    @abstractmethod
    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        """Return the probabilities that the model of the last call of `train` gives to the rows of `held`."""


class VowpalWabbit(Contender):
    """Logistic regression by FTRL-proximal, by the driver of the Python package.

    The driver parses in a second thread.

    Parameters
    ----------
    reads : {"text", "cache"}
        Its text format; or its binary cache, written before the time begins.
    """

    tuned_as = "VowpalWabbit"
    grid = tuple({"alpha": alpha} for alpha in (0.1, 0.3, 1.0, 3.0))

    def __init__(self, reads: str = "text"):
        self.reads = "text" if reads == "text" else "its cache"
        self._cached = reads == "cache"
        self.fixed = "--ftrl --ftrl_beta 1 --loss_function logistic"
        try:
            self.program = f"Vowpal Wabbit {version('vowpalwabbit')}"
        except PackageNotFoundError:
            self.program = "Vowpal Wabbit"

    def missing(self) -> str | None:
        return None if find_spec("vowpalwabbit") else "pip install vowpalwabbit"

    def prepare(self, learn: SplitRows) -> None:
        path = learn.path("vw")
        if self._cached and not self._cache(learn).exists():
            run_child(
                "vw", {"arguments": [*self._read(path, learn), *_bits(learn), "--noop", "--quiet"]}, (0,), learn.folder
            )

    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        arguments = self._read(learn.path("vw"), learn) if self._cached else ["-d", str(learn.path("vw"))]
        if passes > 1:
            again = [] if self._cached else ["-k", "--cache_file", str(workspace.folder / "vw.cache")]
            arguments += [*again, "--passes", str(passes), "--holdout_off"]
        arguments += [
            "--ftrl",
            "--ftrl_alpha",
            str(setting["alpha"]),
            "--ftrl_beta",
            "1",
            "--loss_function",
            "logistic",
        ]
        arguments += [*_bits(learn), "-f", str(workspace.folder / "vw.model"), "--quiet"]
        return run_child("vw", {"arguments": arguments}, workspace.cores, workspace.folder)

    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        out = workspace.folder / "vw.txt"
        arguments = ["-d", str(held.path("vw")), "-t", "-i", str(workspace.folder / "vw.model"), "--quiet"]
        run_child(
            "vw", {"arguments": [*arguments, "--link", "logistic", "-p", str(out)]}, workspace.cores, workspace.folder
        )
        return np.loadtxt(out, usecols=0)

    def _cache(self, learn: SplitRows) -> Path:
        return learn.folder / f"{learn.name}.vw.cache"

    def _read(self, path: Path, learn: SplitRows) -> list[str]:
        return ["-d", str(path), "--cache_file", str(self._cache(learn))]


class LibFFM(Contender):
    """Field-aware factorization machine by libffm, with instance-wise normalization.

    Parameters
    ----------
    folder : Path, optional
        Of its source.
    work : Path
        Where it is compiled.
    factors : int
    reads : {"text", "cache"}
        Its text format, which it converts to a binary file; or that file, written before the time begins.
    """

    tuned_as = "LibFFM"
    program = "libffm"
    grid = tuple({"eta": eta} for eta in (0.05, 0.1, 0.2, 0.4))
    how: ClassVar[str] = "git clone https://github.com/ycjuan/libffm and give --libffm libffm; it needs make and g++"

    def __init__(self, folder: Path | None, work: Path, factors: int = 4, reads: str = "text"):
        self._source, self._work, self._factors = folder, work / "libffm", factors
        self._cached = reads == "cache"
        self.reads = "its .bin" if self._cached else "text"
        self.fixed = f"-k {factors} -l 0.00002 -s 1"

    def missing(self) -> str | None:
        return build(self._source, self._work, ("ffm-train", "ffm-predict"), ".", self.how)

    def prepare(self, learn: SplitRows) -> None:
        path = learn.path("ffm")
        if self._cached and not _binary(learn.folder, path).exists():
            out = learn.folder / "warm.model"
            run_program([str(self._work / "ffm-train"), "-t", "1", "--quiet", path, out], (0,), learn.folder)

    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        path = learn.path("ffm")
        command: list[str | Path]
        if not self._cached:
            _binary(workspace.folder, path).unlink(missing_ok=True)
        settings = ["-k", str(self._factors), "-t", str(passes), "-s", "1", "-r", str(setting["eta"]), "-l", "0.00002"]
        command = [self._work / "ffm-train", *settings, "--quiet", path, workspace.folder / "ffm.model"]
        return run_program(command, workspace.cores, learn.folder if self._cached else workspace.folder)

    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        out = workspace.folder / "ffm.txt"
        command: list[str | Path] = [self._work / "ffm-predict", held.path("ffm"), workspace.folder / "ffm.model", out]
        run_program(command, workspace.cores, workspace.folder)
        return np.loadtxt(out)


class LibFM(Contender):
    """Factorization machine by libFM's SGD.

    It evaluates all training rows after each pass; its own log has the time of the learning loops without that.

    Parameters
    ----------
    folder : Path, optional
        Of its source.
    work : Path
        Where it is compiled.
    factors : int
    """

    tuned_as = "LibFM"
    program = "libFM 1.4.4"
    reads = "text"
    grid = tuple({"learn_rate": rate} for rate in (0.005, 0.01, 0.02, 0.04))
    how: ClassVar[str] = "git clone https://github.com/srendle/libfm and give --libfm libfm; it needs make and g++"

    def __init__(self, folder: Path | None, work: Path, factors: int = 8):
        self._source, self._work, self._factors = folder, work / "libfm", factors
        self.fixed = f"-method sgd -dim 1,1,{factors} -init_stdev {SCALE} -regular 0"
        self._last: tuple[Setting, int] = ({}, 0)

    def missing(self) -> str | None:
        return build(self._source, self._work, ("bin/libFM",), "src/libfm", self.how)

    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        self._last = setting, passes
        few = replace(learn, name="few", rows=learn.rows.slice(0, 1))
        timing = self._run(learn, few, workspace, ["-rlog", workspace.folder / "libfm.log"])
        loops = np.genfromtxt(workspace.folder / "libfm.log", names=True)["time_learn"]
        return replace(timing, loop_seconds=float(np.sum(loops)))

    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        out = workspace.folder / "libfm.txt"
        self._run(learn, held, workspace, ["-out", out])
        return np.loadtxt(out)

    def _run(self, learn: SplitRows, held: SplitRows, workspace: Workspace, more: Sequence[str | Path]) -> Timing:
        setting, passes = self._last
        files: list[str | Path] = ["-train", learn.path("libsvm"), "-test", held.path("libsvm")]
        settings = ["-task", "c", "-method", "sgd", "-dim", f"1,1,{self._factors}", "-iter", str(passes), "-seed", "1"]
        settings += ["-learn_rate", str(setting["learn_rate"]), "-regular", "0,0,0", "-init_stdev", str(SCALE)]
        return run_program([self._work / "bin/libFM", *settings, *files, *more], workspace.cores, workspace.folder)


class FastFM(Contender):
    """Factorization machine by fastFM's SGD, from a CSC matrix in memory.

    Parameters
    ----------
    python : str, optional
        An interpreter with fastFM: it does not run with numpy 2.
    factors : int
    """

    tuned_as = "FastFM"
    program = "fastFM 0.2.10"
    reads = "CSC in memory"
    grid = tuple({"step_size": rate} for rate in (0.005, 0.01, 0.02, 0.04))
    how: ClassVar[str] = (
        "make an environment of Python 3.11, pip install 'numpy<2' 'scipy<1.12' 'scikit-learn<1.5' cython setuptools, "
        "pip install --no-build-isolation fastfm, and give --fastfm PYTHON"
    )

    def __init__(self, python: str | None, factors: int = 8):
        self._python, self._factors = python, factors
        self.fixed = f"sgd.FMClassification(rank={factors}, init_stdev={SCALE}), no penalties"
        self._last: list[str] = []

    def missing(self) -> str | None:
        return None if self._python is not None else self.how

    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        step, factors = str(setting["step_size"]), str(self._factors)
        self._last = [str(learn.keys), str(passes * learn.rows.rows), factors, step, str(SCALE)]
        return self._run(learn, learn, workspace)

    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        self._run(learn, held, workspace)
        probabilities: Probabilities = np.load(workspace.folder / "fastfm.npy")
        return probabilities

    def _run(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Timing:
        assert self._python is not None
        files = [learn.path("csr.npz"), held.path("csr.npz"), workspace.folder / "fastfm.npy"]
        return run_python(self._python, _FASTFM, [*files, *self._last], workspace.cores, workspace.folder)


class ScikitLearnModels(Contender):
    """Logistic regression by scikit-learn, from a CSR matrix in memory.

    Parameters
    ----------
    estimator : {"SGDClassifier", "LogisticRegression"}
        The second runs until it converges, or 300 iterations.
    """

    reads = "CSR in memory"

    def __init__(self, estimator: str):
        self._estimator = self.tuned_as = estimator
        self.program = f"scikit-learn {estimator}"
        sgd = estimator == "SGDClassifier"
        self.fixed = 'loss="log_loss"' if sgd else "lbfgs, max_iter=300"
        name, values = ("alpha", (1e-6, 3e-6, 1e-5, 3e-5)) if sgd else ("C", (0.3, 1.0, 3.0, 10.0))
        self.grid = tuple({name: value} for value in values)
        self._last: dict[str, Any] = {}

    def missing(self) -> str | None:
        return None if find_spec("sklearn") else "pip install scikit-learn"

    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        more: dict[str, Any] = {"max_iter": 300}
        if self._estimator == "SGDClassifier":
            more = {"loss": "log_loss", "max_iter": passes, "tol": None, "random_state": 0}
        self._last = {"estimator": self._estimator, "parameters": {**setting, **more}, "columns": learn.keys}
        return self._run(learn, None, workspace)

    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        self._run(learn, held, workspace)
        probabilities: Probabilities = np.load(workspace.folder / "sklearn.npy")
        return probabilities

    def _run(self, learn: SplitRows, held: SplitRows | None, workspace: Workspace) -> Timing:
        files = {"learn": learn.path("csr.npz"), "held": held and held.path("csr.npz")}
        out = {"predictions": workspace.folder / "sklearn.npy"}
        return run_child("sklearn", self._last | files | out, workspace.cores, workspace.folder)


def _bits(learn: SplitRows) -> list[str]:
    """Return Vowpal Wabbit's option for a table in which no two keys meet."""
    return ["-b", str(max(18, learn.keys.bit_length()))]


def build(source: Path | None, work: Path, programs: Sequence[str], target: str, how: str) -> str | None:
    """Compile a copy of `source` in `work` with its own makefile, unless its programs are there.

    Returns
    -------
    missing : str or None
        How to get the program, or why it could not be compiled.
    """
    if all((work / program).exists() for program in programs):
        return None
    if source is None:
        return how
    if not source.is_dir():
        raise BitlaneError(f"{source} is not a folder: {how}")
    shutil.copytree(source, work, dirs_exist_ok=True)
    names = [Path(program).name for program in programs]
    try:
        result = subprocess.run(["make", "-C", work / target, *names], capture_output=True, text=True)
    except OSError:
        return how
    if result.returncode or not all((work / program).exists() for program in programs):
        lines = result.stderr.strip().splitlines()
        return f"make failed in {source}: {lines[-1] if lines else 'no program was made'}"
    return None


def _binary(folder: Path, path: Path) -> Path:
    """Return the file that libffm converts `path` to, when it runs in `folder`."""
    return folder / f"{path.name}.bin"


_FASTFM = """
import json, sys, time
import numpy as np
import scipy.sparse
from fastFM import sgd

def load(path, columns):
    with np.load(path) as a:
        data, shape = a["data"].astype(float), (len(a["labels"]), columns)
        return scipy.sparse.csr_matrix((data, a["indices"], a["indptr"]), shape), np.where(a["labels"] > 0, 1, -1)

learn, held, out, columns, steps, rank, rate, scale = sys.argv[1:]
X, y = load(learn, int(columns))
model = sgd.FMClassification(n_iter=int(steps), rank=int(rank), init_stdev=float(scale), step_size=float(rate),
                             l2_reg_w=0, l2_reg_V=0, random_state=1)
X = X.tocsc()
wall, cpu = time.perf_counter(), time.process_time()
model.fit(X, y)
timing = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
if held != learn:
    np.save(out, model.predict_proba(load(held, int(columns))[0].tocsc()))
print(json.dumps(timing))
"""
