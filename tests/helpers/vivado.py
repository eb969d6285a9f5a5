"""A Tcl interpreter in which the vendor's commands are stubs that remember, and refuse what does not exist.

A command that is not here, an option that a command does not have, a property, pin, interface or segment that an object
does not have: each is a Tcl error. What the tool would write is written, as text that says so.
"""

from __future__ import annotations

import re
import tkinter
from fnmatch import fnmatchcase
from pathlib import Path

from tests.helpers.vivado_catalogue import CATALOGUE, Entry, Ports

KNOWN = {  # properties of the objects that have some
    "project": ("board_part", "ip_repo_paths"),
    "fileset": ("top",),
    "core": ("name", "version", "display_name", "description", "supported_families"),
    "block": ("base_address", "range", "width", "usage"),
    "register": ("address_offset", "size", "access", "description"),
    "parameter": ("value",),
    "fact": ("value", "value_resolve_type"),
    "bus": ("slave_memory_map_ref",),
}


class Refused(Exception):
    """What the tool would not do."""


class Vivado:
    """The tool, in its batch mode.

    Members
    -------
    called: names of the commands called, in order.
    registers, facts (user parameters): of the packaged core, name: properties; block: its address block's.
    parameters: of its interfaces.
    cells: of the design, name: (Entry, properties). wires: target pin: source pin. links: slave: master.
    assigned: (space, segment): (offset, range); excluded: the same pairs.
    slack: what timing analysis finds, in ns.
    """

    BOARDS = ("xilinx.com:zcu104:part0:1.1", "xilinx.com:kv260_som:part0:1.4", "xilinx.com:kv260_som:part0:1.3")

    def __init__(self):
        self.tcl = tkinter.Tcl().tk
        self.called = []
        self.registers, self.block, self.parameters = {}, {}, {}
        self.clocked, self.facts = {}, {}
        self.cells, self.wires, self.links = {}, {}, {}
        self.assigned, self.excluded = {}, set()
        self.slack = {"STATS.WNS": "0.1", "STATS.WHS": "0.01"}
        self.project = self.core = self.repository = self.saved = None
        self.properties = {}
        self.interfaces = {}
        self.validated = False
        self.tcl.eval("namespace eval ipx {}")
        for name in dir(self):
            if name.startswith("do_"):
                self._command(name[3:].replace("__", "::"), getattr(self, name))

    def _command(self, name, function):
        def called(*words):
            self.called.append(name)
            try:
                return 0, function(*words) or ""
            except Exception as error:  # Tcl would lose its message
                return 1, f"{name}: {error if isinstance(error, Refused) else repr(error)}"

        self.tcl.createcommand(f"stub {name}", called)
        self.tcl.eval(
            f"proc {name} args {{ lassign [{{stub {name}}} {{*}}$args] bad said; "
            "if {$bad} {error $said}; return $said }"
        )

    def run(self, script: Path, *arguments: str):
        """Sources a script as the tool would; TclError where it, or a stub, gives up."""
        self.tcl.call("set", "argv", arguments)
        self.tcl.call("source", str(script))

    def words(self, value) -> list[str]:
        """A Tcl list."""
        return [str(word) for word in self.tcl.splitlist(value)]

    # --- projects and files
    def do_create_project(self, *words):
        given, (name, folder) = options(words, 2, "-part", flags=("-force",))
        _need("-part" in given, "no part")
        self.project = (name, Path(folder))
        self.sources = []
        Path(folder).mkdir(parents=True, exist_ok=True)

    def do_close_project(self):
        self.project = None

    def do_current_project(self):
        return "project"

    def do_current_fileset(self):
        return "fileset"

    def do_add_files(self, *words):
        _, (path,) = options(words, 1, flags=("-norecurse",))
        _need(Path(path).is_file(), f"no file {path}")
        self.sources.append(Path(path))

    def do_update_compile_order(self, *words):
        options(words, 0, "-fileset")

    def do_update_ip_catalog(self):
        self.repository = self.properties["project", "ip_repo_paths"]
        _need((Path(self.repository) / "component.xml").is_file(), f"no IP in {self.repository}")

    def do_get_board_parts(self, *words):
        _, (pattern,) = options(words, 1, flags=("-quiet",))
        return tuple(board for board in self.BOARDS if fnmatchcase(board, pattern))

    def do_get_files(self, pattern):
        return str(self.project[1] / "bd" / pattern)

    # --- properties
    def do_set_property(self, *words):
        given, rest = options(words, None, "-dict")
        pairs = self.words(given["-dict"]) if "-dict" in given else rest[:-1]
        target = rest[-1]
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            self._set(target, name, value)

    def _set(self, target, name, value):
        kind, _, which = target.partition("@")
        if kind == "cell":
            entry, properties = self.cells[which]
            _need(name in entry.properties, f"{which} has no property {name}")
            properties[name] = value
            return
        _need(name in KNOWN[kind], f"a {kind} has no property {name}")
        if (kind, name) == ("project", "board_part"):
            _need(value in self.BOARDS, f"no board {value}")
        if kind == "register":
            self.registers[which][name] = value
        elif kind == "fact":
            self.facts[which][name] = value
        elif kind == "block":
            self.block[name] = value
        elif kind == "parameter":
            self.parameters[which] = value
        self.properties[target, name] = value

    def do_get_property(self, name, target):
        _need(target == "run@impl_1", f"no run {target}")
        return {**self.slack, "PROGRESS": "100%", "STATUS": "done"}[name]

    # --- the packager
    def do_ipx__package_project(self, *words):
        given, _ = options(words, 0, "-root_dir", "-vendor", "-library", "-taxonomy", flags=("-import_files", "-force"))
        text = "".join(path.read_text() for path in self.sources)
        module = re.search(r"\nmodule (\w+)\(([^)]*)\)", text)
        _need(module is not None and module[1] == self.properties["fileset", "top"], "the top is in no source")
        self.module_ports = set(re.findall(r"\w+", module[2]))
        self.core = given
        for bus in ("s_axi", "m_axi", "m_axi0", "m_axi1"):
            if {f"{bus}_{name}" for name in ("awvalid", "wdata", "bready", "araddr", "rdata")} <= self.module_ports:
                self.interfaces[bus] = "aximm"
        Path(given["-root_dir"]).mkdir()

    def do_ipx__current_core(self):
        _need(self.core is not None, "no core")
        return "core"

    def do_ipx__infer_bus_interface(self, port, vlnv, core):
        _need(port in self.module_ports, f"no port {port}")
        kind = re.fullmatch(r"xilinx\.com:signal:(clock|reset|interrupt)_rtl:1\.0", vlnv)
        _need(kind is not None, f"no interface {vlnv}")
        self.interfaces[port] = kind[1]

    def do_ipx__get_bus_interfaces(self, *words):
        given, (name,) = options(words, 1, "-of_objects", flags=("-quiet",))
        return self._found(f"bus@{name}", name in self.interfaces, given)

    def do_ipx__associate_bus_interfaces(self, *words):
        given, _ = options(words, 1, "-busif", "-clock", "-reset")
        _need(self.interfaces.get(given["-clock"]) == "clock", f"no clock {given['-clock']}")
        for option, kind in (("-busif", "aximm"), ("-reset", "reset")):
            if option in given:
                _need(self.interfaces.get(given[option]) == kind, f"no {kind} {given[option]}")
                self.clocked[given[option]] = given["-clock"]

    def do_ipx__get_bus_parameters(self, *words):
        given, (name,) = options(words, 1, "-of_objects", flags=("-quiet",))
        which = f"{given['-of_objects'].partition('@')[2]}@{name}"
        return self._found(f"parameter@{which}", which in self.parameters, given)

    def do_ipx__add_bus_parameter(self, name, interface):
        return f"parameter@{interface.partition('@')[2]}@{name}"

    def do_ipx__get_memory_maps(self, *words):
        given, (name,) = options(words, 1, "-of_objects", flags=("-quiet",))
        return self._found(f"map@{name}", ("map", name) in self.properties, given)

    def do_ipx__add_memory_map(self, name, core):
        self.properties["map", name] = True
        return f"map@{name}"

    def do_ipx__get_address_blocks(self, *words):
        given, (name,) = options(words, 1, "-of_objects", flags=("-quiet",))
        return self._found(f"block@{name}", ("block", name) in self.properties, given)

    def do_ipx__add_address_block(self, name, memory_map):
        self.properties["block", name] = True
        return f"block@{name}"

    def do_ipx__add_register(self, name, block):
        _need(block == "block@reg0", f"no block {block}")
        _need(name not in self.registers, f"register {name} is there already")
        self.registers[name] = {}
        return f"register@{name}"

    def do_ipx__add_user_parameter(self, name, core):
        self.facts[name] = {}
        return f"fact@{name}"

    def do_ipx__create_xgui_files(self, core):
        pass

    def do_ipx__update_checksums(self, core):
        pass

    def do_ipx__check_integrity(self, core):
        for name, properties in self.registers.items():
            _need(set(properties) == set(KNOWN["register"]), f"register {name} is half described")
        _need(set(self.block) == set(KNOWN["block"]), "the address block is half described")
        buses = {name for name, kind in self.interfaces.items() if kind == "aximm"}
        _need({"clk", "rst", "irq", "s_axi"} < {*self.interfaces} and len(buses) > 1, "an interface is missing")
        _need(set(self.clocked) == {*buses, "rst"}, "an interface has no clock")

    def do_ipx__save_core(self, core):
        (Path(self.core["-root_dir"]) / "component.xml").write_text("no IP: written by a stub\n")

    # --- the block design
    def do_create_bd_design(self, name):
        self.design = name
        path = self.project[1] / "bd" / f"{name}.bd"
        path.parent.mkdir(exist_ok=True)
        path.write_text("no design: written by a stub\n")

    def do_create_bd_cell(self, *words):
        given, (name,) = options(words, 1, "-type", "-vlnv")
        _need(given["-type"] == "ip", f"no type {given['-type']}")
        entry = CATALOGUE.get(given["-vlnv"]) or self._own(given["-vlnv"])
        _need(name not in self.cells, f"cell {name} is there already")
        self.cells[name] = (entry, dict(entry.properties))
        return f"cell@{name}"

    def _own(self, vlnv) -> Entry:
        """The core that was packaged, if it is called that and can be found."""
        named = [self.core[part] for part in ("-vendor", "-library")]
        named += [self.properties["core", part] for part in ("name", "version")]
        _need(self.repository is not None and vlnv == ":".join(named), f"no IP {vlnv}")
        inputs = frozenset(port for port, kind in self.interfaces.items() if kind in ("clock", "reset"))
        masters = frozenset(name for name in self.interfaces if name.startswith("m_axi"))
        ports = Ports(inputs, frozenset({"irq"}), inputs, masters, frozenset({"s_axi"}))
        return Entry(lambda _: ports, {}, (*masters,), ("s_axi/reg0",))

    def do_apply_bd_automation(self, *words):
        given, (target,) = options(words, 1, "-rule", "-config")
        _need(given["-rule"] == "xilinx.com:bd_rule:zynq_ultra_ps_e" and target == "cell@ps", "no such rule")
        _need(self.words(given["-config"]) == ["apply_board_preset", "1"], "no such configuration")
        _need(("project", "board_part") in self.properties, "the project has no board, whose preset this is")

    def do_get_bd_cells(self, name):
        _need(name in self.cells, f"no cell {name}")
        return f"cell@{name}"

    def do_get_bd_pins(self, path):
        ports, name = self._ports(path)
        _need(name in ports.inputs | ports.outputs, f"no pin {path}")
        return path

    def do_get_bd_intf_pins(self, path):
        ports, name = self._ports(path)
        _need(name in ports.masters | ports.slaves, f"no interface pin {path}")
        return path

    def _ports(self, path):
        cell, _, name = path.partition("/")
        _need(cell in self.cells, f"no cell {cell}")
        entry, properties = self.cells[cell]
        return entry.ports(properties), name

    def do_connect_bd_net(self, source, target):
        _need(self._ports(source)[0].outputs >= {source.partition("/")[2]}, f"{source} drives nothing")
        _need(self._ports(target)[0].inputs >= {target.partition("/")[2]}, f"{target} cannot be driven")
        _need(target not in self.wires, f"{target} is driven already")
        self.wires[target] = source

    def do_connect_bd_intf_net(self, master, slave):
        _need(self._ports(master)[0].masters >= {master.partition("/")[2]}, f"{master} is no master")
        _need(self._ports(slave)[0].slaves >= {slave.partition("/")[2]}, f"{slave} is no slave")
        _need(slave not in self.links and master not in self.links.values(), f"{master} or {slave} is connected")
        self.links[slave] = master

    def do_get_bd_addr_spaces(self, path):
        cell, _, name = path.partition("/")
        _need(name in self.cells[cell][0].spaces, f"no address space {path}")
        return path

    def do_get_bd_addr_segs(self, pattern):
        found = tuple(segment for segment in self._segments() if fnmatchcase(segment[1:], pattern))
        _need(bool(found), f"no address segment {pattern}")
        return found

    def _segments(self):
        """The address segments of the slaves that the cells have switched on."""
        for cell, (entry, properties) in self.cells.items():
            for segment in entry.segments:
                slave, _, _ = segment.partition("/")
                if properties.get(f"CONFIG.PSU__USE__{slave.replace('SAXI', 'S_AXI_')}", "1") == "1":
                    yield f"/{cell}/{segment}"

    def do_assign_bd_address(self, *words):
        given, (segment,) = options(words, 1, "-offset", "-range", "-target_address_space")
        self.assigned[given["-target_address_space"], segment] = given.get("-offset"), given.get("-range")

    def do_exclude_bd_addr_seg(self, *words):
        given, (segment,) = options(words, 1, "-target_address_space")
        self.excluded.add((given["-target_address_space"], segment))

    def do_validate_bd_design(self):
        for cell, (entry, properties) in self.cells.items():
            ports = entry.ports(properties)
            for pin in ports.needed:
                _need(f"{cell}/{pin}" in self.wires, f"{cell}/{pin} is not connected")
            for name in ports.slaves:
                _need(f"{cell}/{name}" in self.links, f"{cell}/{name} is not connected")
            for name in ports.masters:
                _need(f"{cell}/{name}" in self.links.values(), f"{cell}/{name} is not connected")
        segments = {*self._segments()}
        mapped = {segment for _, segment in {*self.assigned, *self.excluded}}
        _need(mapped == segments, f"neither assigned nor excluded: {segments - mapped}")
        self.validated = True

    def do_save_bd_design(self):
        self.saved = self.validated

    def do_make_wrapper(self, *words):
        given, _ = options(words, 0, "-files", flags=("-top",))
        _need(bool(self.saved) and Path(given["-files"]).is_file(), f"no saved design {given['-files']}")
        path = self.project[1] / f"{self.design}_wrapper.v"
        path.write_text("// no wrapper: written by a stub\n")
        return str(path)

    # --- runs
    def do_launch_runs(self, *words):
        given, (run,) = options(words, 1, "-to_step", "-jobs")
        _need((run, given["-to_step"]) == ("impl_1", "write_bitstream"), f"no run {run}")
        top = self.properties["fileset", "top"]
        _need(self.project[1] / f"{top}.v" in self.sources, f"{top} is in no source")
        name, folder = self.project
        for path in (
            f"{name}.runs/impl_1/{top}.bit",
            f"{name}.gen/sources_1/bd/{self.design}/hw_handoff/{self.design}.hwh",
        ):
            (folder / path).parent.mkdir(parents=True)
            (folder / path).write_text("written by a stub\n")

    def do_wait_on_run(self, run):
        _need(run == "impl_1", f"no run {run}")

    def do_get_runs(self, run):
        return f"run@{run}"

    @staticmethod
    def _found(path, there, given):
        _need(there or "-quiet" in given, f"no {path}")
        return (path,) if there else ()


def options(words, rest, *valued, flags=()):
    """The options given, and the other words, of which there must be `rest`."""
    given, others, words = {}, [], list(words)
    while words:
        word = str(words.pop(0))
        if word in valued:
            _need(bool(words), f"{word} needs a value")
            given[word] = words.pop(0) if word == "-dict" else str(words.pop(0))
        elif word in flags:
            given[word] = ""
        else:
            _need(not re.match(r"-[a-z]", word), f"no option {word}")
            others.append(word)
    _need(rest is None or len(others) == rest, f"{len(others)} words instead of {rest}: {others}")
    return given, others


def _need(good, problem):
    if not good:
        raise Refused(problem)
