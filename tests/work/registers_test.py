#!/usr/bin/env python3
"""Whether products keep their sums in registers: registers_test.py PROGRAM --built-with TEXT

PROGRAM has the library in it. Its loops that multiply and add for products and convolutions must not store registers on
the stack, which takes a quarter more time and hardly more instructions, so that no count of those would tell. Which
registers a loop gets depends on compiler and options, so it is looked at only where TEXT is what bounds.json was
recorded with. It is there to catch, for example, CAPSTAN_TILE in lib/cpu/simd/products.hpp that calls nothing.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

BOUNDS = pathlib.Path(__file__).with_name("bounds.json")
FUNCTION = re.compile(r"::avx(2|512)::.*\b(gemm_tile|gemm_panel|for_tiles|small_gemm|offset_tile|offset_gemm)<")
MULTIPLY_ADDS = 8  # a loop with fewer is none of a tile that fills the registers
INSTRUCTIONS = 64  # a loop with more has an activation in it
STORE = re.compile(r"vmov\w+ +%[xyz]mm\d+,-?(0x[0-9a-f]+)?\(%r[sb]p\)")
JUMP = re.compile(r"j\w+ +([0-9a-f]+)")


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def functions(program):
    """name -> [(address, instruction)] of those that multiply"""
    places = []
    for line in said("nm", "--demangle", "--print-size", program).splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) == 4 and FUNCTION.search(fields[3]):
            places.append((int(fields[0], 16), int(fields[0], 16) + int(fields[1], 16)))
    if not places:
        return {}
    begin, end = min(first for first, _ in places), max(last for _, last in places)
    found, name = {}, None
    for line in said("objdump", "--disassemble", "--demangle", "--no-show-raw-insn", f"--start-address={begin}",
                     f"--stop-address={end}", program).splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name = head[1] if FUNCTION.search(head[1]) else None
        elif name and (instruction := re.match(r" *([0-9a-f]+):\t(.*)$", line)):
            found.setdefault(name, []).append((int(instruction[1], 16), instruction[2]))
    return found


def innermost_loops(instructions):
    """The instructions of each."""
    places = {address: i for i, (address, _) in enumerate(instructions)}
    loops = []
    for end, (_, instruction) in enumerate(instructions):
        jump = JUMP.match(instruction)
        begin = places.get(int(jump[1], 16)) if jump else None
        if begin is not None and begin < end:
            loops.append((begin, end))
    for begin, end in loops:
        if not any((a, b) != (begin, end) and begin <= a and b <= end for a, b in loops):
            yield [instruction for _, instruction in instructions[begin:end + 1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--built-with", required=True, help="build type, processor, compiler, libraries")
    options = parser.parse_args()
    recorded_with = json.loads(BOUNDS.read_text())["built_with"]
    if options.built_with != recorded_with:
        return print(f"not looked at: this build is '{options.built_with}', and no '{recorded_with}'")
    if shutil.which("objdump") is None:
        return print("not looked at: there is no objdump")
    looked_at, faults = 0, 0
    for name, instructions in functions(options.program).items():
        for loop in innermost_loops(instructions):
            if len(loop) > INSTRUCTIONS or sum("fmadd" in one for one in loop) < MULTIPLY_ADDS:
                continue
            looked_at += 1
            stores = sum(STORE.match(one) is not None for one in loop)
            if stores > 0:
                faults += 1
                print(f"FAULT  a loop of {len(loop)} instructions stores {stores} registers on the stack: {name}")
    print(f"{looked_at} loops looked at, {faults} faults")
    return sys.exit(faults > 0 or looked_at == 0)


if __name__ == "__main__":
    main()
