# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# bitlane::build takes a board's settings to a bitstream and its hardware handoff:
#   part   the chip
#   board  pattern of the vendor's board files, whose preset configures the processing system
#   width  bits of the memory port: of the Verilog and of the HP port
#   clock  MHz of the whole design

namespace eval bitlane {
    variable here [file dirname [file normalize [info script]]]
    variable verilog bitlane_accelerator.v
    variable top bitlane_accelerator
    variable map registers.tcl

    # The folder given on the command line, in which the two generated files must lie.
    proc folder {arguments} {
        variable verilog
        variable map
        if {[llength $arguments] != 1} {
            error "give one folder, with $verilog and $map in it: vivado -mode batch -source FILE -tclargs FOLDER"
        }
        set folder [file normalize [lindex $arguments 0]]
        foreach file [list $verilog $map] {
            if {![file isfile [file join $folder $file]]} {
                error "$folder has no $file: bitstreams/README.md says how to make it"
            }
        }
        return $folder
    }

    # An error unless the Verilog's memory port has this many bits.
    proc check_width {path width} {
        set file [open $path]
        set text [read $file]
        close $file
        if {![regexp {input\s+\[(\d+):0\]\s+m_axi_rdata} $text -> high]} {
            error "$path has no port m_axi_rdata: make it with bitlane_hw.verilog"
        }
        if {$high + 1 != $width} {
            error "$path is for [expr {$high + 1}] bits: make it with --width $width"
        }
    }

    # All of it; bitlane.bit and bitlane.hwh appear in the folder.
    proc build {arguments settings} {
        variable verilog
        set folder [folder $arguments]
        check_width [file join $folder $verilog] [dict get $settings width]
        package_ip $folder [dict get $settings part]
        create_design $folder $settings
        implement $folder
        export $folder
    }
}

foreach file {ip.tcl design.tcl implement.tcl} {
    source [file join $bitlane::here $file]
}
