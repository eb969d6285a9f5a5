# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# From the block design to a bitstream that meets timing, and the two files that PYNQ loads.

namespace eval bitlane {
    variable jobs 4

    # Synthesis, placement, routing, bitstream. An error where a step fails or timing is not met.
    proc implement {folder} {
        variable jobs
        launch_runs impl_1 -to_step write_bitstream -jobs $jobs
        wait_on_run impl_1
        set run [get_runs impl_1]
        if {[get_property PROGRESS $run] ne "100%"} {
            error "implementation ended with [get_property STATUS $run]: see the logs in $folder/project"
        }
        foreach {slack what} {STATS.WNS setup STATS.WHS hold} {
            set nanoseconds [get_property $slack $run]
            if {$nanoseconds < 0} {
                error "$what timing is missed by [expr {-$nanoseconds}] ns: lower the board's clock"
            }
        }
    }

    # Copies bitlane.bit and bitlane.hwh into the folder. Both or neither: a bitstream without its handoff is of no use.
    proc export {folder} {
        variable design
        set project [file join $folder project]
        set bit [existing [file join $project bitlane.runs impl_1 ${design}_wrapper.bit]]
        set hwh [existing [file join $project bitlane.gen sources_1 bd $design hw_handoff $design.hwh]]
        file copy -force $hwh [file join $folder $design.hwh]
        file copy -force $bit [file join $folder $design.bit]
        puts "written: [file join $folder $design.bit] and .hwh. No board has run them: bitlane selftest --device pynq"
    }

    # The path, if there is such a file.
    proc existing {path} {
        if {![file isfile $path]} {
            error "the tool wrote no $path"
        }
        return $path
    }
}
