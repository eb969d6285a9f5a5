# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# The block design of a Zynq UltraScale+ board: one clock; the registers and an interrupt controller behind HPM0; the
# memory port straight on HP0, which is as wide, or both memory ports on HP0 and HP1, which lead to different ports of the
# memory controller. PYNQ wants the controller: without it, it polls.

namespace eval bitlane {
    variable design bitlane
    variable registers_at 0xA0000000
    variable interrupts_at 0xA0010000
    variable interrupts_range 64K
    variable slaves {SAXIGP2 HP0 SAXIGP3 HP1}

    # A project in FOLDER/project with the block design, validated, and its wrapper as the top.
    proc create_design {folder settings} {
        variable design
        create_project bitlane [file join $folder project] -part [dict get $settings part] -force
        set_property board_part [board_part [dict get $settings board]] [current_project]
        set_property ip_repo_paths [file join $folder ip] [current_project]
        update_ip_catalog
        create_bd_design $design
        processing_system $folder [dict get $settings width] [dict get $settings clock]
        fabric $folder
        connections $folder
        addresses $folder
        validate_bd_design
        save_bd_design
        set wrapper [make_wrapper -files [get_files $design.bd] -top]
        add_files -norecurse $wrapper
        set_property top ${design}_wrapper [current_fileset]
        update_compile_order -fileset sources_1
    }

    # The newest of the installed board files.
    proc board_part {pattern} {
        set found [lsort -dictionary [get_board_parts -quiet $pattern]]
        if {[llength $found] == 0} {
            error "no board file $pattern: install it from Vivado's store (Tools, XHub Stores)"
        }
        return [lindex $found end]
    }

    # The names of the processing system for the memory ports of the accelerator: {interface slave port} of each.
    proc memory_ports {folder} {
        variable generated
        variable slaves
        source [file join $folder $generated]
        set found {}
        foreach interface $memory {slave port} [lrange $slaves 0 [expr {2 * [llength $memory] - 1}]] {
            lappend found $interface $slave $port
        }
        return $found
    }

    proc processing_system {folder width clock} {
        create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps
        apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {apply_board_preset 1} [get_bd_cells ps]
        set_property -dict [list \
            CONFIG.PSU__USE__M_AXI_GP0 1 \
            CONFIG.PSU__USE__M_AXI_GP1 0 \
            CONFIG.PSU__USE__M_AXI_GP2 0 \
            CONFIG.PSU__MAXIGP0__DATA_WIDTH 32 \
            CONFIG.PSU__USE__IRQ0 1 \
            CONFIG.PSU__FPGA_PL0_ENABLE 1 \
            CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $clock \
        ] [get_bd_cells ps]
        set ports [memory_ports $folder]
        set count [expr {[llength $ports] / 3}]
        foreach {interface slave port} $ports {
            set_property -dict [list \
                CONFIG.PSU__USE__[string map {SAXI S_AXI_} $slave] 1 \
                CONFIG.PSU__${slave}__DATA_WIDTH [expr {$width / $count}] \
            ] [get_bd_cells ps]
        }
    }

    proc fabric {folder} {
        variable generated
        source [file join $folder $generated]
        create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset resets
        create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
        set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 2] [get_bd_cells control]
        create_bd_cell -type ip -vlnv xilinx.com:ip:axi_intc interrupts
        set_property CONFIG.C_IRQ_CONNECTION 1 [get_bd_cells interrupts]
        create_bd_cell -type ip -vlnv $vlnv accelerator
    }

    proc connections {folder} {
        foreach {master slave} {
            ps/M_AXI_HPM0_FPD control/S00_AXI
            control/M00_AXI   accelerator/s_axi
            control/M01_AXI   interrupts/s_axi
        } {
            connect_bd_intf_net [get_bd_intf_pins $master] [get_bd_intf_pins $slave]
        }
        foreach {interface slave port} [memory_ports $folder] {
            connect_bd_intf_net [get_bd_intf_pins accelerator/$interface] [get_bd_intf_pins ps/S_AXI_${port}_FPD]
            wire ps/pl_clk0 ps/saxi[string tolower $port]_fpd_aclk
        }
        wire ps/pl_clk0 {
            ps/maxihpm0_fpd_aclk resets/slowest_sync_clk control/aclk interrupts/s_axi_aclk
            accelerator/clk
        }
        wire ps/pl_resetn0 resets/ext_reset_in
        wire resets/peripheral_reset accelerator/rst
        wire resets/peripheral_aresetn interrupts/s_axi_aresetn
        wire resets/interconnect_aresetn control/aresetn
        wire accelerator/irq interrupts/intr
        wire interrupts/irq ps/pl_ps_irq0
    }

    # One driver, and all that it drives.
    proc wire {from targets} {
        foreach to $targets {
            connect_bd_net [get_bd_pins $from] [get_bd_pins $to]
        }
    }

    # Where the processor sees the registers, and the accelerator the memory: where it is, and nothing but DRAM.
    proc addresses {folder} {
        variable generated
        variable registers_at
        variable interrupts_at
        variable interrupts_range
        source [file join $folder $generated]
        set processor [get_bd_addr_spaces ps/Data]
        assign_bd_address -offset $registers_at -range $window -target_address_space $processor \
            [get_bd_addr_segs accelerator/s_axi/reg0]
        assign_bd_address -offset $interrupts_at -range $interrupts_range -target_address_space $processor \
            [get_bd_addr_segs interrupts/S_AXI/Reg]
        foreach {interface slave port} [memory_ports $folder] {
            set accelerator [get_bd_addr_spaces accelerator/$interface]
            foreach segment [get_bd_addr_segs ps/$slave/*] {
                if {[string match */${port}_DDR_* $segment]} {
                    assign_bd_address -target_address_space $accelerator $segment
                } else {
                    exclude_bd_addr_seg -target_address_space $accelerator $segment
                }
            }
        }
    }
}
