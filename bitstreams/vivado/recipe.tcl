# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# bitlane::build takes a board's settings to a bitstream and its hardware handoff:
#   name   as pynq calls the board
#   part   the chip
#   board  pattern of the vendor's board files, whose preset configures the processing system
#   width  bits of the memory port of the Verilog: one HP port of up to 128 bits, or two of 128 for 256
#   clock  MHz of the whole design

namespace eval bitlane {
    variable here [file dirname [file normalize [info script]]]
    variable generated accelerator.tcl

    # The folder given on the command line, in which the generated file and the Verilog that it names must lie.
    proc folder {arguments} {
        variable generated
        if {[llength $arguments] != 1} {
            error "give one folder, with $generated in it: vivado -mode batch -source FILE -tclargs FOLDER"
        }
        set folder [file normalize [lindex $arguments 0]]
        needed $folder $generated
        needed $folder [top $folder].v
        return $folder
    }

    # The name of the top module.
    proc top {folder} {
        variable generated
        source [file join $folder $generated]
        return $top
    }

    proc needed {folder file} {
        if {![file isfile [file join $folder $file]]} {
            error "$folder has no $file: bitstreams/README.md says how to make it"
        }
    }

    # All of it; bitlane.bit and bitlane.hwh appear in the folder.
    proc build {arguments settings} {
        variable generated
        set folder [folder $arguments]
        source [file join $folder $generated]
        set width [dict get $settings width]
        if {[dict get $facts WIDTH] != $width} {
            error "the accelerator in $folder is for [dict get $facts WIDTH] bits: make it with --width $width"
        }
        if {$width > 128 * [llength $memory]} {
            error "the accelerator in $folder has [llength $memory] memory port: make it with --memory-ports 2"
        }
        dict set facts BOARD [dict get $settings name]
        dict set facts CLOCK_MHZ [dict get $settings clock]
        package_ip $folder [dict get $settings part] $facts
        create_design $folder $settings
        implement $folder
        export $folder
    }
}

foreach file {ip.tcl design.tcl implement.tcl} {
    source [file join $bitlane::here $file]
}
