# UNTESTED IN VIVADO: checked by tests/bitstreams in a Tcl interpreter with stubs, never run by the vendor's tool.
#
# KV260:  python -m bitlane_hw.export build/kv260 --width 256 --memory-ports 2
#         vivado -mode batch -source bitstreams/kv260/build.tcl -tclargs build/kv260

source [file join [file dirname [file normalize [info script]]] .. vivado recipe.tcl]

bitlane::build $argv {
    name  KV260
    part  xck26-sfvc784-2LV-c
    board xilinx.com:kv260_som:part0:*
    width 256
    clock 300
}
