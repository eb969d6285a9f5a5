# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# The accelerator's Verilog as an IP: its register map, memory port, clock, reset and interrupt.

namespace eval bitlane {
    # Packages FOLDER/ip from what was generated into FOLDER. The facts are parameters of the IP, for PYNQ to read.
    proc package_ip {folder part facts} {
        set top [top $folder]
        create_project package [file join $folder package] -part $part -force
        add_files -norecurse [file join $folder $top.v]
        set_property top $top [current_fileset]
        update_compile_order -fileset sources_1
        describe $folder
        interfaces [ipx::current_core] $folder
        registers [ipx::current_core] $folder
        parameters [ipx::current_core] $facts
        finish [ipx::current_core]
        close_project
    }

    proc describe {folder} {
        variable generated
        source [file join $folder $generated]
        lassign [split $vlnv :] vendor library name version
        ipx::package_project -root_dir [file join $folder ip] -vendor $vendor -library $library -taxonomy /UserIP \
            -import_files -force
        set core [ipx::current_core]
        set_property name $name $core
        set_property version $version $core
        set_property display_name "bitlane accelerator" $core
        set_property description "SGD on linear models over low-precision samples" $core
        set_property supported_families {zynquplus Production} $core
    }

    # The packager finds the AXI ports by the names of their signals; clock, reset and interrupt are told.
    proc interfaces {core folder} {
        variable generated
        source [file join $folder $generated]
        foreach {port kind} {clk clock rst reset irq interrupt} {
            if {[llength [ipx::get_bus_interfaces -quiet $port -of_objects $core]] == 0} {
                ipx::infer_bus_interface $port xilinx.com:signal:${kind}_rtl:1.0 $core
            }
        }
        parameter $core rst POLARITY ACTIVE_HIGH
        parameter $core irq SENSITIVITY LEVEL_HIGH
        foreach bus [list s_axi {*}$memory] {
            if {[llength [ipx::get_bus_interfaces -quiet $bus -of_objects $core]] != 1} {
                error "the packager found no interface $bus in the Verilog"
            }
            ipx::associate_bus_interfaces -busif $bus -clock clk $core
        }
        ipx::associate_bus_interfaces -clock clk -reset rst $core
    }

    # Sets a parameter of an interface, which is added where it is not there.
    proc parameter {core port name value} {
        set interface [ipx::get_bus_interfaces $port -of_objects $core]
        set parameter [ipx::get_bus_parameters -quiet $name -of_objects $interface]
        if {[llength $parameter] == 0} {
            set parameter [ipx::add_bus_parameter $name $interface]
        }
        set_property value $value $parameter
    }

    # One address block, reg0, with every register of the generated map.
    proc registers {core folder} {
        variable generated
        source [file join $folder $generated]
        set maps [ipx::get_memory_maps -quiet s_axi -of_objects $core]
        if {[llength $maps] == 0} {
            set maps [ipx::add_memory_map s_axi $core]
            set_property slave_memory_map_ref s_axi [ipx::get_bus_interfaces s_axi -of_objects $core]
        }
        set block [ipx::get_address_blocks -quiet reg0 -of_objects $maps]
        if {[llength $block] == 0} {
            set block [ipx::add_address_block reg0 $maps]
        }
        set_property base_address 0 $block
        set_property range $window $block
        set_property width 32 $block
        set_property usage register $block
        foreach entry $registers {
            lassign $entry name offset access meaning
            set register [ipx::add_register $name $block]
            set_property address_offset $offset $register
            set_property size 32 $register
            set_property access $access $register
            set_property description $meaning $register
        }
    }

    proc parameters {core facts} {
        dict for {name value} $facts {
            set parameter [ipx::add_user_parameter $name $core]
            set_property value_resolve_type user $parameter
            set_property value $value $parameter
        }
    }

    proc finish {core} {
        ipx::create_xgui_files $core
        ipx::update_checksums $core
        ipx::check_integrity $core
        ipx::save_core $core
    }
}
