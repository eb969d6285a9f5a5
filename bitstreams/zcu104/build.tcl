# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# ZCU104:  python -m bitlane_hw.export build/zcu104 --width 256 --memory-ports 2
#          vivado -mode batch -source bitstreams/zcu104/build.tcl -tclargs build/zcu104

source [file join [file dirname [file normalize [info script]]] .. vivado recipe.tcl]

bitlane::build $argv {
    name  ZCU104
    part  xczu7ev-ffvc1156-2-e
    board xilinx.com:zcu104:part0:*
    width 256
    clock 300
}
