#!/usr/bin/env python3
"""Whether products keep their sums in registers: registers_test.py PROGRAM --built-with TEXT

PROGRAM has the library in it. Loops of AVX2 and AVX-512 that multiply and add, for products and for convolutions made
of such tiles, may store one register on the stack for 16 multiply-adds, and no more. Sums that go through memory take a
quarter more time and few more instructions, so that no count of those would tell. Which registers a loop gets depends
on compiler and options, so it is looked at only where TEXT is what bounds.json was recorded with, whatever the version
of OpenBLAS. It is there to catch, for example, a CAPSTAN_TILE in lib/cpu/simd/products.hpp that lets tiles be inlined.
Ends with 77 if nothing was looked at.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

BOUNDS = pathlib.Path(__file__).with_name("bounds.json")
SYMBOL = re.compile(r"([0-9a-f]+) ([0-9a-f]+) t (.*::(avx2|avx512)::.*)")
FUNCTION = re.compile(r"\b(gemm_tile|gemm_panel|for_tiles|small_gemm|rnn_\w+|offset_\w+|dot_\w+)<")
KINDS = {f"{kernels} {kind}" for kernels in ("avx2", "avx512") for kind in ("product", "convolution")}
MULTIPLY_ADDS = 8  # a loop with fewer is none of a tile that fills the registers
FOR_A_STORE = 16  # multiply-adds
MULTIPLY_ADD = re.compile(r"vfmadd\d+p[sd]")
MOVE = re.compile(r"vmov|vbroadcast|vmaskmov|vpbroadcast")
STORE = re.compile(r"v\w+ +(\$\w+,)?%[xyz]mm\d+,-?(0x[0-9a-f]+)?\(%r[sb]p[,)]")
JUMP = re.compile(r"j\w+ +([0-9a-f]+)")


def said(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout


def functions(program):
    """(name, kind) -> [(address, instruction)] of those that multiply"""
    symbols = [match for match in map(SYMBOL.fullmatch, said("nm", "-CS", program).splitlines()) if match]
    found = {}
    for kernels in ("avx2", "avx512"):  # each lies in one piece
        places = [(int(match[1], 16), int(match[1], 16) + int(match[2], 16))
                  for match in symbols if match[4] == kernels and FUNCTION.search(match[3])]
        if not places:
            continue
        begin, end = min(place[0] for place in places), max(place[1] for place in places)
        instructions = None
        for line in said("objdump", "-dC", "--no-show-raw-insn", f"--start-address={begin}", f"--stop-address={end}",
                         program).splitlines():
            if head := re.fullmatch(r"[0-9a-f]+ <(.*)>:", line):
                name = head[1]
                kind = f"{kernels} {'convolution' if 'offset_' in name else 'product'}"
                instructions = found.setdefault((name, kind), []) if FUNCTION.search(name) else None
            elif instructions is not None and (one := re.fullmatch(r" *([0-9a-f]+):\t(.*)", line)):
                instructions.append((int(one[1], 16), one[2]))
    return found


def innermost_loops(instructions):
    """The instructions of each."""
    places = {address: i for i, (address, _) in enumerate(instructions)}
    ends = {}  # the last jump back to a place
    for end, (_, instruction) in enumerate(instructions):
        jump = JUMP.match(instruction)
        begin = places.get(int(jump[1], 16)) if jump else None
        if begin is not None and begin < end:
            ends[begin] = end
    for begin, end in ends.items():
        if not any(begin < a and b <= end for a, b in ends.items()):
            yield [instruction for _, instruction in instructions[begin:end + 1]]


def count(pattern, loop):
    return sum(pattern.match(instruction) is not None for instruction in loop)


def is_product(loop):
    """Nothing but loads, multiply-adds and moves: no activation, no sums of the end."""
    vectors = [instruction for instruction in loop if instruction.startswith("v")]
    adds = count(MULTIPLY_ADD, vectors)
    return adds >= MULTIPLY_ADDS and adds + count(MOVE, vectors) == len(vectors)


def compiler_and_options(built_with):
    return [part for part in built_with.split(", ") if not part.startswith("OpenBLAS")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--built-with", required=True, help="build type, processor, compiler, libraries")
    options = parser.parse_args()
    recorded_with = json.loads(BOUNDS.read_text())["built_with"]
    if compiler_and_options(options.built_with) != compiler_and_options(recorded_with):
        print(f"not looked at: this build is '{options.built_with}', and the bounds are of '{recorded_with}'")
        return 77
    if shutil.which("nm") is None or shutil.which("objdump") is None:
        print("not looked at: there is no nm or no objdump (binutils)")
        return 77
    looked_at, faults = dict.fromkeys(KINDS, 0), 0
    for (name, kind), instructions in functions(options.program).items():
        for loop in filter(is_product, innermost_loops(instructions)):
            looked_at[kind] += 1
            stores, adds = count(STORE, loop), count(MULTIPLY_ADD, loop)
            if stores * FOR_A_STORE > adds:
                faults += 1
                print(f"FAULT  a loop of {adds} multiply-adds stores {stores} registers on the stack: {name}")
    for kind, loops in sorted(looked_at.items()):
        print(f"{loops} loops of {kind}s")
        if loops == 0:
            faults += 1
            print("FAULT  there must be some: are they called otherwise now, or is the program stripped?")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
