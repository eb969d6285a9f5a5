// Runs the module `bench` on vectors: a cycle's input comes from stdin, its output, before the clock's edge, goes to
// stdout, both as the bytes of the port. The argument is the seed of what has no initial value. Where the module calls
// $fatal, what it says goes to stderr, and the exit status is 1.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "Vtop.h"
#include "verilated.h"

static bool failed = false;

void vl_stop(const char*, int, const char*) { failed = true; }

int main(int, char** arguments) {
    std::FILE* out = fdopen(dup(1), "wb");
    dup2(2, 1);  // what $fatal prints
    VerilatedContext context;
    context.randReset(2);
    context.randSeed(std::atoi(arguments[1]));
    Vtop top{&context};
    while (std::fread(&top.in, sizeof top.in, 1, stdin) == 1) {
        top.clk = 0;
        top.eval();
        std::fwrite(&top.out, sizeof top.out, 1, out);
        top.clk = 1;
        top.eval();
    }
    std::fclose(out);
    return failed;
}
